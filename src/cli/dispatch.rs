use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;
use tokio::runtime::{Builder, Runtime};

use super::{
    apply,
    args::{Cli, Verb},
    context::Context,
    failure::{Class, Failure},
    get, logs, model, offline, serve, single, stop,
};
use crate::{process, surface::las, telemetry};

/// Runs the program: reads the command line, does what it says, tells what went wrong, yields the exit code of SPEC §12.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Verb::Supervise(supervise) = cli.verb {
        return process::supervise(supervise.args);
    }
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.class == Class::ReaderGone => ExitCode::SUCCESS,
        Err(failure) => {
            drop(writeln!(std::io::stderr(), "{failure}"));
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(cli.home)?;
    telemetry::start(context.log_filter(), matches!(cli.verb, Verb::Serve(_)));
    match cli.verb {
        Verb::Validate(files) => offline::validate(&context, &files),
        Verb::Schema(schema) => offline::schema(&schema),
        Verb::Explain(explain) => offline::explain(&explain),
        Verb::Completion(completion) => offline::completion(&completion),
        Verb::Version => offline::version(),
        Verb::Model(verb) => model::model(&context, &verb),
        Verb::Supervise(_) => Ok(()),
        Verb::Las => alone()?.block_on(las::serve(context.env().clone())).map_err(|error| Failure::of(Class::Upstream, &error)),
        Verb::Plan(plan) => many()?.block_on(apply::plan(&context, &plan)),
        Verb::Apply(arguments) => many()?.block_on(apply::apply(&context, &arguments)),
        Verb::Serve(arguments) => many()?.block_on(serve::serve(&context, arguments)),
        Verb::Get(arguments) => many()?.block_on(get::get(&context, &arguments)),
        Verb::Describe(one) => many()?.block_on(get::describe(&context, &one.address)),
        Verb::Logs(arguments) => many()?.block_on(logs::logs(&context, &arguments)),
        Verb::Delete(arguments) => many()?.block_on(stop::delete(&context, &arguments)),
        Verb::Down(arguments) => many()?.block_on(stop::down(&context, &arguments)),
        Verb::Run(arguments) => many()?.block_on(single::run(&context, &arguments)),
        Verb::Once(arguments) => many()?.block_on(single::once(&context, &arguments)),
        Verb::Tools(arguments) => many()?.block_on(single::tools(&context, &arguments)),
        Verb::Doctor(arguments) => many()?.block_on(single::doctor(&context, &arguments)),
    }
}

fn many() -> Result<Runtime, Failure> {
    Builder::new_multi_thread().enable_all().build().map_err(|error| Failure::of(Class::Runtime, &error))
}

fn alone() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(|error| Failure::of(Class::Runtime, &error))
}
