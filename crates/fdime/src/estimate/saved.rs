//! Trained critics on disk: `plan.json` says how they were made and how to feed them,
//! `critics.safetensors` holds their parameters, one tensor each.

use super::inputs::InputMap;
use super::model::{FoldModel, Member};
use super::plan::EstimatePlan;
use super::recipe::Recipe;
use super::result::Estimate;
use crate::data::{Column, Values};
use crate::error::{Error, Result};
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::path::Path;

const PLAN: &str = "plan.json";
const CRITICS: &str = "critics.safetensors";

/// Rows scored together.
const ROWS_AT_ONCE: usize = 10_000;

/// Critics that give new rows a log ratio.
#[derive(Clone, Debug)]
pub struct SavedModel {
    description: Description,
    models: Vec<FoldModel>,
}

/// Everything but the networks' parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    version: String,
    plan: EstimatePlan,
    mi_nats: f64,
    x: Vec<SavedColumn>,
    y: Vec<SavedColumn>,
    folds: Vec<Vec<SavedMember>>,
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
    recipe: Recipe,
    weight: f64,
    map: InputMap,
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
    /// The model behind an estimate of these columns.
    pub fn new(plan: &EstimatePlan, estimate: &Estimate, x: &[Column], y: &[Column]) -> Self {
        let folds = estimate
            .models
            .iter()
            .enumerate()
            .map(|(fold, model)| {
                let members = model.members.iter().enumerate();
                members
                    .map(|(index, member)| SavedMember {
                        tensor: format!("fold{fold}.critic{index}"),
                        recipe: member.recipe.clone(),
                        weight: member.weight,
                        map: member.map.clone(),
                    })
                    .collect()
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

    /// The columns of x that it needs.
    pub fn x(&self) -> &[SavedColumn] {
        &self.description.x
    }

    /// The columns of y that it needs.
    pub fn y(&self) -> &[SavedColumn] {
        &self.description.y
    }

    /// The estimate that it comes from.
    pub fn trained_mi_nats(&self) -> f64 {
        self.description.mi_nats
    }

    /// Refuses a folder that holds anything but an earlier model.
    pub fn check_folder(folder: &Path) -> Result<()> {
        let fail = |reason: &str| {
            Err(Error::Write { path: folder.display().to_string(), reason: reason.into() })
        };
        crate::data::check_writable(&folder.join("..").join(PLAN))
            .or_else(|_| crate::data::check_writable(folder))
            .or_else(|error| if folder.is_dir() { Ok(()) } else { Err(error) })?;
        if folder.is_file() {
            return fail("it is a file; name a folder");
        }
        let holds_files = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if holds_files && !folder.join(PLAN).is_file() {
            return fail("the folder is not empty and holds no model; name another");
        }
        Ok(())
    }

    /// Writes the folder aside and renames it into place.
    pub fn save(&self, folder: &Path) -> Result<()> {
        Self::check_folder(folder)?;
        let fail = |reason: String| Error::Write { path: folder.display().to_string(), reason };
        let io = |error: std::io::Error| fail(error.to_string());
        let parent = match folder.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let aside = tempfile::Builder::new().prefix(".fdime-").tempdir_in(parent).map_err(io)?;
        let json =
            serde_json::to_vec(&self.description).map_err(|error| fail(error.to_string()))?;
        std::fs::write(aside.path().join(PLAN), json).map_err(io)?;
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
        std::fs::write(aside.path().join(CRITICS), critics).map_err(io)?;
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(aside.path(), mode).map_err(io)?;
        }
        if folder.exists() {
            let old = tempfile::Builder::new().prefix(".fdime-").tempdir_in(parent).map_err(io)?;
            std::fs::rename(folder, old.path().join("old")).map_err(io)?;
        }
        std::fs::rename(aside.keep(), folder).map_err(io)
    }

    fn members(&self) -> impl Iterator<Item = (&SavedMember, &Member)> {
        let folds = self.description.folds.iter().zip(&self.models);
        folds.flat_map(|(saved, model)| saved.iter().zip(&model.members))
    }

    /// Reads a folder that [`save`](Self::save) wrote.
    pub fn load(folder: &Path) -> Result<Self> {
        let fail = |file: &str, problem: String| Error::Data {
            file: folder.join(file).display().to_string(),
            problem,
        };
        let read = |file: &str| {
            std::fs::read(folder.join(file)).map_err(|error| {
                fail(file, format!("{error}; name a folder written by 'fdime estimate --save'"))
            })
        };
        let (json, bytes) = (read(PLAN)?, read(CRITICS)?);
        let description: Description = serde_json::from_slice(&json)
            .map_err(|error| fail(PLAN, format!("not the plan of a saved model: {error}")))?;
        let corrupt = |what: String| fail(CRITICS, format!("{what}; save the model again"));
        let tensors =
            SafeTensors::deserialize(&bytes).map_err(|error| corrupt(error.to_string()))?;
        let member = |saved: &SavedMember| -> Result<Member> {
            let view = tensors.tensor(&saved.tensor).map_err(|error| corrupt(error.to_string()))?;
            let (numbers, rest) = view.data().as_chunks::<4>();
            let parameters: Vec<f32> =
                numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let widths = saved.recipe.hidden.iter().copied();
            let inputs = saved.map.x.width() + saved.map.y.width();
            let layers: Vec<usize> = [inputs].into_iter().chain(widths).chain([1]).collect();
            let expected: usize = layers.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
            if view.dtype() != Dtype::F32 || !rest.is_empty() || parameters.len() != expected {
                return Err(corrupt(format!("{} does not fit its plan", saved.tensor)));
            }
            let (recipe, map) = (saved.recipe.clone(), saved.map.clone());
            Ok(Member { recipe, map, parameters, weight: saved.weight })
        };
        let models = description
            .folds
            .iter()
            .map(|fold| {
                let members = fold.iter().map(member).collect::<Result<_>>()?;
                Ok(FoldModel { members })
            })
            .collect::<Result<_>>()?;
        Ok(SavedModel { description, models })
    }

    /// The log ratio of every row of these columns, averaged over the folds' models: new rows are
    /// unseen by all of them.
    pub fn log_ratios(&self, x: &[Column], y: &[Column]) -> Result<Vec<f64>> {
        let rows: Vec<u32> = (0..x.first().map_or(0, Column::len) as u32).collect();
        let estimator = self.description.plan.method.estimator()?;
        // Some rows at a time, so that inputs take little memory however long the table is.
        let by_chunk: Vec<Vec<f64>> = rows
            .par_chunks(ROWS_AT_ONCE)
            .map(|rows| {
                let mut sums = vec![0.0; rows.len()];
                for model in &self.models {
                    let ratios = model.log_ratios(&estimator, x, y, rows);
                    sums.iter_mut().zip(ratios).for_each(|(sum, l)| *sum += f64::from(l));
                }
                sums
            })
            .collect();
        let count = self.models.len() as f64;
        Ok(by_chunk.concat().into_iter().map(|sum| sum / count).collect())
    }
}
