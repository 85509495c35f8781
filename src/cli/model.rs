use super::{
    args::Model,
    context::{Context, print, say},
    failure::{Class, Failure},
    progress::Progress,
};
use crate::{model::embedded::pull, store::Home};

/// Fetches the default model, or tells where it is.
pub(super) fn model(context: &Context, verb: &Model) -> Result<(), Failure> {
    match verb {
        Model::Path => {
            let folder = Home::unmade(context.home_path()).models();
            print(&format!("{}\n", pull::model_file(&folder).display()))
        }
        Model::Pull => {
            let folder = context.home()?.models();
            let bar = Progress::new(context.is_lively());
            let pulled = pull::pull(&folder, &mut |progress| bar.fetching(progress.done, progress.total));
            bar.clear();
            let path = pulled.map_err(|error| Failure::of(Class::Upstream, &error))?;
            say(&format!("the model is there and checked: {}", path.display()));
            Ok(())
        }
    }
}
