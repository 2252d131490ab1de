//! Trained critics on disk: a safetensors file with one tensor for each network, whose metadata
//! describe the networks and their inputs.

use super::inputs::InputMap;
use super::model::{FoldModel, Member};
use super::plan::EstimatePlan;
use super::recipe::CriticRecipe;
use super::result::Estimate;
use crate::data::{Column, Values, without_panic, write_whole};
use crate::engine::{CpuEngine, Engine};
use crate::error::{Result, data_error, not_writable, read_error};
use crate::message::Message;
use crate::parallel::run_jobs;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;

/// The name of the description in the metadata.
const DESCRIPTION: &str = "fdime";

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

/// A description with the checksum of description and parameters.
#[derive(Serialize, Deserialize)]
struct Sealed {
    checksum: u32,
    description: Description,
}

/// A column that the critics were trained on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedColumn {
    /// Its name.
    pub name: String,
    /// The categories that critics know, `None` for numbers.
    pub levels: Option<Vec<String>>,
}

impl SavedColumn {
    /// Returns the name and whether the column is discrete.
    pub fn kind(&self) -> (String, bool) {
        (self.name.clone(), self.levels.is_some())
    }

    /// Returns the number of rows whose category critics do not know, and one such category.
    fn unknown_rows<'a>(&self, column: &'a Column) -> Option<(usize, &'a str)> {
        let (Some(levels), Values::Discrete { codes, labels }) = (&self.levels, &column.values)
        else {
            return None;
        };
        let known: HashSet<&str> = levels.iter().map(String::as_str).collect();
        let is_unknown = |code: &&u32| {
            labels.get(**code as usize).is_some_and(|label| !known.contains(label.as_str()))
        };
        let count = codes.iter().filter(is_unknown).count();
        let example = codes.iter().find(is_unknown).map(|code| labels[*code as usize].as_str());
        example.map(|example| (count, example))
    }
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
            levels: match &column.values {
                Values::Continuous(_) => None,
                Values::Discrete { labels, .. } => Some(labels.clone()),
            },
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
                // The critics are those of the estimate without a chain.
                mi_nats: estimate.chain.as_ref().map_or(estimate.mi, |chain| chain.direct_nats).0,
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

    /// Returns remarks on categories of the new columns that critics do not know. Such a row is
    /// scored as if it had no category.
    pub fn unknown_categories(&self, x: &[Column], y: &[Column]) -> Vec<Message> {
        let saved = self.x().iter().chain(self.y());
        let unknown = saved.zip(x.iter().chain(y)).filter_map(|(saved, column)| {
            let (count, example) = saved.unknown_rows(column)?;
            let rows = if count == 1 { "1 row has".into() } else { format!("{count} rows have") };
            Some(Message::from(format!(
                "column '{}': {rows} a category that the critics were not trained on, such as '{}'; \
                 their log ratios are unreliable",
                column.name, example
            )))
        });
        unknown.collect()
    }

    /// Writes a file, completely or not at all.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes()?;
        write_whole(path, |file| file.write_all(&bytes))
    }

    /// Returns the contents of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let fail = |error: String| not_writable(Path::new("the model"), error);
        let bytes: Vec<(String, Vec<u8>)> = self
            .members()
            .map(|(saved, member)| {
                let bytes = member.parameters.iter().flat_map(|value| value.to_le_bytes());
                (saved.tensor.clone(), bytes.collect())
            })
            .collect();
        let parameters = bytes.iter().map(|(_, bytes)| bytes.as_slice());
        let checksum = checksum(&self.description, parameters);
        let sealed = Sealed { checksum, description: self.description.clone() };
        let sealed = serde_json::to_string(&sealed).map_err(|error| fail(error.to_string()))?;
        let tensors = bytes
            .iter()
            .map(|(name, bytes)| {
                Ok((name, TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes)?))
            })
            .collect::<std::result::Result<Vec<_>, safetensors::SafeTensorError>>()
            .map_err(|error| fail(error.to_string()))?;
        let metadata = HashMap::from([(DESCRIPTION.to_string(), sealed)]);
        serialize(tensors, Some(metadata)).map_err(|error| fail(error.to_string()))
    }

    fn members(&self) -> impl Iterator<Item = (&SavedMember, &Member)> {
        let folds = self.description.folds.iter().zip(&self.models);
        folds.flat_map(|(saved, model)| saved.critics.iter().zip(&model.members))
    }

    /// Reads a file that [`save`](Self::save) wrote.
    pub fn load(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if path.is_dir() {
            return Err(data_error(&name, "it is a folder; a saved model is a file"));
        }
        let bytes = std::fs::read(path).map_err(|error| read_error(&name, error))?;
        Self::from_bytes(&bytes, &name)
    }

    /// Reads the contents of a file and scores an arbitrary row, because some damage only shows when
    /// a model is used. `name` names the file in errors.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Self> {
        let damaged = |reason: Message| {
            let problem = Message::from("it is not a saved model, or damaged (").then(reason);
            data_error(name, problem.text("); save the model again"))
        };
        let model = without_panic(|| Self::parse(bytes)).flatten().map_err(damaged)?;
        let arbitrary = |columns: &[SavedColumn]| -> Vec<Column> {
            let values = |discrete: bool| match discrete {
                true => Values::Discrete { codes: vec![0], labels: vec!["?".into()] },
                false => Values::Continuous(vec![0.5]),
            };
            let column = |column: &SavedColumn| {
                let (name, discrete) = column.kind();
                Column { name, values: values(discrete) }
            };
            columns.iter().map(column).collect()
        };
        let (x, y) = (arbitrary(model.x()), arbitrary(model.y()));
        match without_panic(|| model.log_ratios(&x, &y, &CpuEngine::new(1)))
            .map_err(damaged)??
            .first()
        {
            Some(ratio) if ratio.is_finite() => Ok(model),
            _ => Err(damaged("its log ratios are not finite".into())),
        }
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, Message> {
        let text = |error: &dyn std::fmt::Display| Message::from(error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| text(&error))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| text(&error))?;
        let sealed = header.metadata().as_ref().and_then(|metadata| metadata.get(DESCRIPTION));
        let sealed = sealed.ok_or("it has no description")?;
        // The version comes first: another version may describe a model in another way.
        let version = serde_json::from_str::<serde_json::Value>(sealed).ok();
        let version = version.as_ref().and_then(|sealed| sealed["description"]["version"].as_str());
        if let Some(version) = version.filter(|version| *version != env!("CARGO_PKG_VERSION")) {
            return Err(format!("it was saved by version {version}").into());
        }
        let Sealed { checksum: expected, description } =
            serde_json::from_str(sealed).map_err(|error| text(&error))?;
        let member = |saved: &SavedMember| -> std::result::Result<Member, Message> {
            let view = tensors.tensor(&saved.tensor).map_err(|error| text(&error))?;
            let (numbers, rest) = view.data().as_chunks::<4>();
            let parameters: Vec<f32> =
                numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            let count = saved.recipe.parameter_count(saved.map.dims());
            let fits = view.dtype() == Dtype::F32
                && rest.is_empty()
                && saved.map.is_valid()
                && Some(parameters.len()) == count
                && parameters.iter().all(|parameter| parameter.is_finite());
            if !fits {
                return Err(format!("{} does not fit its description", saved.tensor).into());
            }
            let (recipe, map) = (saved.recipe.clone(), saved.map.clone());
            Ok(Member { recipe, map, parameters, weight: saved.weight })
        };
        let models = description
            .folds
            .iter()
            .map(|fold| {
                let members = fold.critics.iter().map(member);
                let members = members.collect::<std::result::Result<_, Message>>()?;
                let limit = fold.limit.unwrap_or(f64::INFINITY);
                Ok(FoldModel { members, limit, offset: fold.offset })
            })
            .collect::<std::result::Result<_, Message>>()?;
        let saved = description.folds.iter().flat_map(|fold| &fold.critics);
        let parameters = saved.filter_map(|saved| Some(tensors.tensor(&saved.tensor).ok()?.data()));
        if checksum(&description, parameters) != expected {
            return Err("its checksum is wrong".into());
        }
        Ok(SavedModel { description, models })
    }

    /// Returns the log ratio of every row of these columns, averaged over the folds' models. None
    /// of them was trained on new rows.
    pub fn log_ratios(&self, x: &[Column], y: &[Column], engine: &dyn Engine) -> Result<Vec<f64>> {
        let rows: Vec<u32> = (0..x.first().map_or(0, Column::len) as u32).collect();
        let estimator = self.description.plan.method.estimator();
        // Blocks of rows, so that the inputs of a long table take little memory.
        let blocks: Vec<&[u32]> = rows.chunks(ROWS_PER_BLOCK).collect();
        let sums = run_jobs(engine.threads(), blocks.len(), |block, _| {
            let rows = blocks[block];
            let mut sums = vec![0.0; rows.len()];
            for model in &self.models {
                let ratios = model.log_ratios(&estimator, x, y, rows, engine, &|| Ok(()))?;
                sums.iter_mut().zip(ratios).for_each(|(sum, l)| *sum += f64::from(l));
            }
            Ok(sums)
        });
        let count = self.models.len() as f64;
        let sums = sums.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(sums.concat().into_iter().map(|sum| sum / count).collect())
    }
}

/// Returns the checksum of a description and its parameters.
fn checksum<'a>(description: &Description, parameters: impl Iterator<Item = &'a [u8]>) -> u32 {
    let mut checksum = flate2::Crc::new();
    // A description is plain data, which can always be written.
    checksum.update(&serde_json::to_vec(description).unwrap_or_default());
    parameters.for_each(|bytes| checksum.update(bytes));
    checksum.sum()
}
