use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{
    apply::set_name,
    args::{Delete, Down},
    context::{Context, asked, say},
    failure::{Class, Failure},
};
use crate::api::{AskError, Client, DeleteRequest};

/// How often a daemon that ends is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Takes an applied object or set away.
pub(super) async fn delete(context: &Context, arguments: &Delete) -> Result<(), Failure> {
    let client = needed(context)?;
    let request = match &arguments.address {
        Some(address) => DeleteRequest::Object { address: address.clone(), purge: arguments.purge },
        None => DeleteRequest::Set { set: set_name(&arguments.files, arguments.set.as_ref()) },
    };
    let answer = client.delete(&request).await.map_err(|error| asked(&error))?;
    answer.done.iter().for_each(|done| say(done));
    Ok(())
}

/// Stops the daemon and waits until it is gone.
pub(super) async fn down(context: &Context, arguments: &Down) -> Result<(), Failure> {
    let Some(home) = context.existing_home()? else {
        say(&format!("no daemon runs: there is no home at {}", context.home_path().display()));
        return Ok(());
    };
    let client = match Client::connect(&home.socket()) {
        Ok(client) => client,
        Err(AskError::NoDaemon(_)) => {
            say(&format!("no daemon runs for {}", home.path().display()));
            return Ok(());
        }
        Err(error) => return Err(asked(&error)),
    };
    let pid = client.status(None).await.map_err(|error| asked(&error))?.daemon.pid;
    client.down().await.map_err(|error| asked(&error))?;
    let deadline = Instant::now() + arguments.timeout.as_duration();
    while home.lock_daemon().is_err() {
        if Instant::now() > deadline {
            let what = format!("the daemon (process {pid}) still stops its beings");
            return Err(Failure::new(Class::Runtime, what).hinting("wait, or end the process; nothing acknowledged is lost"));
        }
        sleep(LOOK).await;
    }
    say("stopped the daemon and all beings; their state is kept");
    Ok(())
}

/// A connection to the daemon, where one has to run.
pub(super) fn needed(context: &Context) -> Result<Client, Failure> {
    let missing = || {
        Failure::new(Class::State, format!("no daemon runs for {}", context.home_path().display()))
            .hinting("start one with `singularity apply -f …` or `singularity serve DIR`")
    };
    context.client()?.ok_or_else(missing)
}
