use clap::{Args, ValueEnum};
use tokio::time::{Instant, timeout_at};

use super::{
    context::{Context, asked, say},
    failure::{Class, Failure},
    stop::needed,
};
use crate::{
    api::{ConditionKind, List, ObjectStatus},
    vocab::{Address, Span},
};

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub(super) struct Wait {
    /// The objects, such as `being/ada`. All of them are waited for.
    #[arg(required = true)]
    pub addresses: Vec<Address>,
    /// What is waited for.
    #[arg(long = "for", value_enum, value_name = "WHAT")]
    pub what: Awaited,
    /// How long to wait.
    #[arg(long, default_value = "60s", value_name = "SPAN")]
    pub timeout: Span,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Awaited {
    /// It does what it is declared to do now.
    Ready,
    /// A being has nothing under way: it rests, is paused, or may not or need not go on.
    Idle,
    /// It is not declared any more and nothing of it runs.
    Gone,
}

/// Waits until something is the case for all that are named.
pub(super) async fn wait(context: &Context, arguments: &Wait) -> Result<(), Failure> {
    let client = needed(context)?;
    let deadline = Instant::now() + arguments.timeout.as_duration();
    let (mut newer_than, mut open) = (None, Vec::new());
    loop {
        let Ok(status) = timeout_at(deadline, client.status(newer_than)).await else {
            let what = format!("waited {} in vain: {}", arguments.timeout, open.join(", "));
            return Err(Failure::new(Class::Runtime, what).hinting("`singularity describe` says why an object waits"));
        };
        let status = status.map_err(|error| asked(&error))?.status;
        open.clear();
        for address in &arguments.addresses {
            open.extend(lacks(arguments.what, address, &status.list)?);
        }
        if open.is_empty() {
            say(&format!("{} {}", names(&arguments.addresses), arguments.what.told(arguments.addresses.len())));
            return Ok(());
        }
        newer_than = Some(status.version);
    }
}

fn names(addresses: &[Address]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Awaited {
    fn told(self, count: usize) -> String {
        let word = match self {
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Gone => "gone",
        };
        format!("{} {word}", if count == 1 { "is" } else { "are" })
    }
}

/// How an object is, where it is not as it is waited for; the error says that waiting is of no use.
fn lacks(what: Awaited, address: &Address, list: &List) -> Result<Option<String>, Failure> {
    let found = list.items.iter().find(|object| object.address == address.to_string());
    let Some(object) = found else {
        let missing =
            || Failure::new(Class::Configuration, format!("{address} is not declared")).hinting("`singularity get` lists what is");
        return if what == Awaited::Gone { Ok(None) } else { Err(missing()) };
    };
    let stalled = object.condition(ConditionKind::Stalled).filter(|_| object.is(ConditionKind::Stalled));
    if let Some(stalled) = stalled.filter(|_| what != Awaited::Gone) {
        let what = format!("{address} is stalled ({}): {}", stalled.reason, stalled.message);
        return Err(Failure::new(Class::Runtime, what).hinting("it waits for an operator; `singularity describe` says more"));
    }
    let is_so = match what {
        Awaited::Ready => is_ready(object),
        Awaited::Idle => object.being.as_ref().is_some_and(|being| being.idle),
        Awaited::Gone => false,
    };
    let is_now = || object.being.as_ref().map_or_else(|| reason(object), |being| being.activity.clone());
    Ok((!is_so).then(|| format!("{address} is {}", is_now())))
}

/// Tells whether an object does what it is declared to do now.
pub(super) fn is_ready(object: &ObjectStatus) -> bool {
    object.is(ConditionKind::Ready) && !object.is(ConditionKind::Progressing) && object.observed_generation == object.generation
}

fn reason(object: &ObjectStatus) -> String {
    object.condition(ConditionKind::Ready).map(|ready| ready.reason.clone()).unwrap_or_default()
}
