use std::{io::Write as _, process::ExitCode, time::Duration};

use clap::Parser as _;
use tokio::runtime::{Builder, Runtime};

use super::{
    apply,
    args::{Cli, Verb},
    context::Context,
    decide, decisions, doctor,
    failure::{Class, Failure},
    get, las, logs, man, model, offline, operate, questions, serve, single, skill, state, stop, tree,
};
use crate::{
    process,
    telemetry::{self, Voice},
};

/// Runs the program: reads the command line, does what it says, tells what went wrong, yields the exit code of SPEC §12.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Verb::Supervise(supervise) = cli.verb {
        return process::supervise(supervise.args);
    }
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_silent() {
                drop(writeln!(std::io::stderr(), "{failure}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

/// How long what blocks a thread is waited for at the end.
const PARTING: Duration = Duration::from_secs(1);

fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(cli.home)?;
    let voice = match cli.verb {
        Verb::Serve(_) => Voice::Daemon,
        Verb::Las(ref arguments) if arguments.files.is_empty() => Voice::Child,
        Verb::Las(_) => Voice::Daemon,
        _ => Voice::Command,
    };
    telemetry::start(context.log_filter(), voice);
    match cli.verb {
        Verb::Validate(files) => offline::validate(&context, &files),
        Verb::Schema(schema) => offline::schema(&schema),
        Verb::Explain(explain) => offline::explain(&explain),
        Verb::Completion(completion) => offline::completion(&completion),
        Verb::Man(pages) => man::man(&pages),
        Verb::Version => offline::version(),
        Verb::State(verb) => state::state(&context, &verb),
        Verb::Model(verb) => model::model(&context, &verb),
        Verb::Supervise(_) => Ok(()),
        Verb::Las(arguments) => within(alone()?, las::las(&context, arguments)),
        Verb::Plan(plan) => within(many()?, apply::plan(&context, &plan)),
        Verb::Apply(arguments) => within(many()?, apply::apply(&context, &arguments)),
        Verb::Serve(arguments) => within(many()?, serve::serve(&context, arguments)),
        Verb::Get(arguments) => within(many()?, get::get(&context, &arguments)),
        Verb::Describe(one) => within(many()?, get::describe(&context, &one.address)),
        Verb::Logs(arguments) => within(many()?, logs::logs(&context, &arguments)),
        Verb::Questions(arguments) => within(many()?, questions::questions(&context, &arguments)),
        Verb::Approve(arguments) => within(many()?, questions::approve(&context, &arguments)),
        Verb::Answer(arguments) => within(many()?, questions::answer(&context, &arguments)),
        Verb::Deny(arguments) => within(many()?, questions::deny(&context, &arguments)),
        Verb::Tree(arguments) => within(many()?, tree::tree(&context, &arguments)),
        Verb::Skill(verb) => within(many()?, skill::skill(&context, &verb)),
        Verb::Decide(arguments) => within(many()?, decide::decide(&context, &arguments)),
        Verb::Decisions(verb) => within(many()?, decisions::decisions(&context, &verb)),
        Verb::Operate(verb) => within(many()?, operate::operate(&context, &verb)),
        Verb::Delete(arguments) => within(many()?, stop::delete(&context, &arguments)),
        Verb::Down(arguments) => within(many()?, stop::down(&context, &arguments)),
        Verb::Run(arguments) => within(alone()?, single::run(&context, &arguments)),
        Verb::Once(arguments) => within(alone()?, single::once(&context, &arguments)),
        Verb::Tools(arguments) => within(many()?, single::tools(&context, &arguments)),
        Verb::Doctor(arguments) => within(many()?, doctor::doctor(&context, &arguments)),
    }
}

/// Runs to the end, and waits only a moment for what still blocks a thread, such as a download.
fn within(runtime: Runtime, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(PARTING);
    done
}

fn many() -> Result<Runtime, Failure> {
    Builder::new_multi_thread().enable_all().build().map_err(|error| Failure::of(Class::Runtime, &error))
}

/// A runtime of one thread, for one being or one client: what is handed from thread to thread there costs more than it saves.
fn alone() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(|error| Failure::of(Class::Runtime, &error))
}
