//! The image sets that recipes need.

use super::images::Images;
use super::jobs::Job;
use super::recipe::Recipe;
use crate::failure::Failure;
use std::collections::HashMap;
use std::path::Path;

/// The file with a set's images within its folder.
const TRAINING_IMAGES: &str = "train-images-idx3-ubyte.gz";

/// Images by the name of their set.
pub type ImageSets = HashMap<String, Images>;

/// Opens the image sets of a recipe and adds them to `sets`. Returns why a set cannot be found, or
/// `None` if all were; fails if images cannot be read or do not fit the recipe.
pub fn load(
    recipe: &Recipe,
    folder: Option<&Path>,
    sets: &mut ImageSets,
) -> Result<Option<String>, Failure> {
    for job in recipe.jobs()? {
        let Job::Images { plan, .. } = job else { continue };
        if !sets.contains_key(&plan.images) {
            match open(folder, &plan.images)? {
                Ok(images) => sets.insert(plan.images.clone(), images),
                Err(reason) => return Ok(Some(reason)),
            };
        }
        let fits = plan.check_images(&sets[&plan.images]);
        fits.map_err(|error| Failure::from(error).within(&recipe.name))?;
    }
    Ok(None)
}

/// Opens a set of images, or returns why it cannot be found.
fn open(folder: Option<&Path>, name: &str) -> Result<Result<Images, String>, Failure> {
    let Some(folder) = folder else {
        return Ok(Err("its images were not found; set their folder with --images FOLDER".into()));
    };
    let zipped = folder.join(name).join(TRAINING_IMAGES);
    let plain = zipped.with_extension("");
    match [&zipped, &plain].into_iter().find(|path| path.exists()) {
        Some(path) => Ok(Ok(Images::open(path)?)),
        None => Ok(Err(format!("there is no {}", zipped.display()))),
    }
}
