//! Trained critics on disk: `plan.json` describes them and their inputs, `critics.safetensors`
//! holds their parameters, one tensor each.

use super::inputs::InputMap;
use super::model::{FoldModel, Member};
use super::plan::EstimatePlan;
use super::recipe::CriticRecipe;
use super::result::Estimate;
use crate::data::{Column, Values, without_panic};
use crate::error::{Result, data_error, not_writable, read_error, write_error};
use crate::message::Message;
use crate::parallel::run_jobs;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::path::Path;

const PLAN: &str = "plan.json";
const CRITICS: &str = "critics.safetensors";

/// Rows that are scored together.
const ROWS_PER_BLOCK: usize = 10_000;

/// Trained critics that compute the log ratio of new rows.
#[derive(Clone, Debug)]
pub struct SavedModel {
    description: Description,
    models: Vec<FoldModel>,
}

/// Everything except the networks' parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    version: String,
    plan: EstimatePlan,
    mi_nats: f64,
    x: Vec<SavedColumn>,
    y: Vec<SavedColumn>,
    folds: Vec<SavedFold>,
}

/// A column that the critics were trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedColumn {
    /// Its name.
    pub name: String,
    /// Whether it was discrete.
    pub discrete: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedMember {
    tensor: String,
    recipe: CriticRecipe,
    weight: f64,
    map: InputMap,
}

/// One fold's critics, and the offset that is subtracted from the sum of their log ratios.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SavedFold {
    /// Missing if there is no limit: JSON has no infinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    offset: f64,
    critics: Vec<SavedMember>,
}

fn columns(columns: &[Column]) -> Vec<SavedColumn> {
    columns
        .iter()
        .map(|column| SavedColumn {
            name: column.name.clone(),
            discrete: matches!(column.values, Values::Discrete { .. }),
        })
        .collect()
}

impl SavedModel {
    /// Returns the critics of an estimate of these columns.
    pub fn new(plan: &EstimatePlan, estimate: &Estimate, x: &[Column], y: &[Column]) -> Self {
        let folds = estimate
            .models
            .iter()
            .enumerate()
            .map(|(fold, model)| {
                let members = model.members.iter().enumerate();
                let critics = members
                    .map(|(index, member)| SavedMember {
                        tensor: format!("fold{fold}.critic{index}"),
                        recipe: member.recipe.clone(),
                        weight: member.weight,
                        map: member.map.clone(),
                    })
                    .collect();
                let limit = Some(model.limit).filter(|limit| limit.is_finite());
                SavedFold { limit, offset: model.offset, critics }
            })
            .collect();
        SavedModel {
            description: Description {
                version: env!("CARGO_PKG_VERSION").into(),
                plan: plan.clone(),
                mi_nats: estimate.mi.0,
                x: columns(x),
                y: columns(y),
                folds,
            },
            models: estimate.models.clone(),
        }
    }

    /// Returns the columns of x that the critics need.
    pub fn x(&self) -> &[SavedColumn] {
        &self.description.x
    }

    /// Returns the columns of y that the critics need.
    pub fn y(&self) -> &[SavedColumn] {
        &self.description.y
    }

    /// Returns the estimate that the critics were trained for, in nats.
    pub fn trained_mi_nats(&self) -> f64 {
        self.description.mi_nats
    }

    /// Returns an error if the folder exists and holds anything but an earlier model.
    pub fn check_folder(folder: &Path) -> Result<()> {
        let fail = |reason: &str| Err(not_writable(folder, reason));
        if folder.file_name().is_none() {
            return fail("choose a separate folder for the model");
        }
        if !folder.exists() {
            return crate::data::check_writable(folder);
        }
        let Ok(entries) = folder.read_dir() else {
            return fail("it is not a folder that can be read; name another");
        };
        // Saving replaces the folder, so it must hold nothing but an earlier model.
        let ours = |name: &std::ffi::OsStr| name == PLAN || name == CRITICS;
        if entries.flatten().any(|entry| !ours(&entry.file_name())) {
            return fail("the folder holds other files than a saved model; name another");
        }
        Ok(())
    }

    /// Writes a temporary folder and renames it into place.
    pub fn save(&self, folder: &Path) -> Result<()> {
        Self::check_folder(folder)?;
        let io = |error: std::io::Error| write_error(folder, error);
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let temporary =
            tempfile::Builder::new().prefix(".fdime-").tempdir_in(parent).map_err(io)?;
        let (plan, critics) = self.to_bytes()?;
        std::fs::write(temporary.path().join(PLAN), plan).map_err(io)?;
        std::fs::write(temporary.path().join(CRITICS), critics).map_err(io)?;
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(temporary.path(), mode).map_err(io)?;
        }
        // The old model is removed only when the new one is in its place.
        let old = tempfile::Builder::new().prefix(".fdime-").tempdir_in(parent).map_err(io)?;
        let old_model = old.path().join("old");
        let existed = folder.exists();
        if existed {
            std::fs::rename(folder, &old_model).map_err(io)?;
        }
        let renamed = std::fs::rename(temporary.path(), folder);
        if renamed.is_err() && existed {
            std::fs::rename(&old_model, folder).map_err(io)?;
        }
        renamed.map_err(io)?;
        // The temporary folder is in place now and must not be deleted.
        let _ = temporary.keep();
        Ok(())
    }

    /// Returns the contents of the two files.
    pub fn to_bytes(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let fail = |error: String| not_writable(Path::new(PLAN), error);
        let plan =
            serde_json::to_vec(&self.description).map_err(|error| fail(error.to_string()))?;
        let bytes: Vec<(String, Vec<u8>)> = self
            .members()
            .map(|(saved, member)| {
                let bytes = member.parameters.iter().flat_map(|value| value.to_le_bytes());
                (saved.tensor.clone(), bytes.collect())
            })
            .collect();
        let tensors = bytes
            .iter()
            .map(|(name, bytes)| {
                Ok((name, TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes)?))
            })
            .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|error| fail(error.to_string()))?;
        let critics = serialize(tensors, None).map_err(|error| fail(error.to_string()))?;
        Ok((plan, critics))
    }

    fn members(&self) -> impl Iterator<Item = (&SavedMember, &Member)> {
        let folds = self.description.folds.iter().zip(&self.models);
        folds.flat_map(|(saved, model)| saved.critics.iter().zip(&model.members))
    }

    /// Reads a folder that [`save`](Self::save) wrote.
    pub fn load(folder: &Path) -> Result<Self> {
        let read = |file: &str| {
            let path = folder.join(file);
            std::fs::read(&path).map_err(|error| read_error(&path.display().to_string(), error))
        };
        Self::from_bytes(&read(PLAN)?, &read(CRITICS)?, folder)
    }

    /// Reads the contents of the two files of a folder and scores an arbitrary row, because some
    /// damage to a plan only shows when it is used.
    pub fn from_bytes(plan: &[u8], critics: &[u8], folder: &Path) -> Result<Self> {
        let damaged = |reason: Message| {
            let problem =
                format!("the plan does not fit its critics ({reason}); save the model again");
            data_error(&folder.join(PLAN).display().to_string(), problem)
        };
        let model = without_panic(|| Self::parse(plan, critics, folder)).map_err(damaged)??;
        let arbitrary = |columns: &[SavedColumn]| -> Vec<Column> {
            let values = |discrete: bool| match discrete {
                true => Values::Discrete { codes: vec![0], labels: vec!["?".into()] },
                false => Values::Continuous(vec![0.5]),
            };
            columns
                .iter()
                .map(|column| Column { name: column.name.clone(), values: values(column.discrete) })
                .collect()
        };
        let (x, y) = (arbitrary(model.x()), arbitrary(model.y()));
        match without_panic(|| model.log_ratios(&x, &y, 1)).map_err(damaged)?.first() {
            Some(ratio) if ratio.is_finite() => Ok(model),
            _ => Err(damaged("its log ratios are not finite".into())),
        }
    }

    fn parse(plan: &[u8], critics: &[u8], folder: &Path) -> Result<Self> {
        let fail = |file: &str, problem: String| {
            data_error(&folder.join(file).display().to_string(), problem)
        };
        let description: Description = serde_json::from_slice(plan)
            .map_err(|error| fail(PLAN, format!("not the plan of a saved model: {error}")))?;
        if description.version != env!("CARGO_PKG_VERSION") {
            let problem = format!("saved by version {}; save it again", description.version);
            return Err(fail(PLAN, problem));
        }
        let corrupt = |what: String| fail(CRITICS, format!("{what}; save the model again"));
        let tensors =
            SafeTensors::deserialize(critics).map_err(|error| corrupt(error.to_string()))?;
        let member = |saved: &SavedMember| -> Result<Member> {
            let view = tensors.tensor(&saved.tensor).map_err(|error| corrupt(error.to_string()))?;
            let (numbers, rest) = view.data().as_chunks::<4>();
            let parameters: Vec<f32> =
                numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let expected = saved.recipe.parameter_count(saved.map.dims());
            if !saved.map.is_valid() {
                return Err(fail(
                    PLAN,
                    format!("the maps of {} are damaged; save the model again", saved.tensor),
                ));
            }
            if view.dtype() != Dtype::F32 || !rest.is_empty() || Some(parameters.len()) != expected
            {
                return Err(corrupt(format!("{} does not fit its plan", saved.tensor)));
            }
            let (recipe, map) = (saved.recipe.clone(), saved.map.clone());
            Ok(Member { recipe, map, parameters, weight: saved.weight })
        };
        let models = description
            .folds
            .iter()
            .map(|fold| {
                let members = fold.critics.iter().map(member).collect::<Result<_>>()?;
                let limit = fold.limit.unwrap_or(f64::INFINITY);
                Ok(FoldModel { members, limit, offset: fold.offset })
            })
            .collect::<Result<_>>()?;
        Ok(SavedModel { description, models })
    }

    /// Returns the log ratio of every row of these columns, averaged over the folds' models. None
    /// of them was trained on new rows.
    pub fn log_ratios(&self, x: &[Column], y: &[Column], threads: usize) -> Vec<f64> {
        let rows: Vec<u32> = (0..x.first().map_or(0, Column::len) as u32).collect();
        let estimator = self.description.plan.method.estimator();
        // Blocks of rows, so that the inputs of a long table take little memory.
        let blocks: Vec<&[u32]> = rows.chunks(ROWS_PER_BLOCK).collect();
        let sums = run_jobs(threads, blocks.len(), |block, _| {
            let rows = blocks[block];
            let mut sums = vec![0.0; rows.len()];
            for model in &self.models {
                let ratios = model.log_ratios(&estimator, x, y, rows);
                sums.iter_mut().zip(ratios).for_each(|(sum, l)| *sum += f64::from(l));
            }
            sums
        });
        let count = self.models.len() as f64;
        sums.concat().into_iter().map(|sum| sum / count).collect()
    }
}
