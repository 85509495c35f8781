use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::{
    decide::Decide,
    decisions::Decisions,
    las::Las,
    man::ManPages,
    operate::Operate,
    questions::{Answer, Approve, Deny, Questions},
    serve::Serve,
    skill::Skill,
    state::State,
    tree::Tree,
};
use crate::{
    manifest::{SETTINGS, Variables},
    vocab::{Address, Name, Span},
};

/// GitOps for autonomous agents: declare beings in manifests, and what runs converges to what is declared.
#[derive(Debug, Parser)]
#[command(name = "singularity", version, propagate_version = true, max_term_width = 100, after_help = EXIT_CODES)]
pub(super) struct Cli {
    /// The home: state, socket, applied sets, models. Without it `.singularity`, here or in a folder above.
    #[arg(long, global = true, env = "SINGULARITY_HOME", value_name = "DIR")]
    pub home: Option<PathBuf>,
    #[command(subcommand)]
    pub verb: Verb,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 something differs (only with --exit-code), 2 configuration, 3 upstream (model, MCP), 4 state or I/O, 5 tool or runtime.

Examples:
  singularity apply -f examples/hello.toml    start what a manifest declares
  singularity get beings                      see what runs
  singularity logs -f being/hello             follow a being's journal
  singularity down                            stop the daemon and all beings";

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Check manifests, and tell all that is wrong with them.
    #[command(after_help = "Examples:\n  singularity validate -f manifests/\n  cat being.toml | singularity validate -f -")]
    Validate(Files),
    /// Show what `apply` would change, as a diff, and change nothing.
    #[command(
        after_help = "Examples:\n  singularity plan -f manifests/\n  singularity plan -f manifests/ --exit-code || echo \"something would change\""
    )]
    Plan(Plan),
    /// Make what runs equal to what is declared; starts the daemon where none runs.
    #[command(
        after_help = "Examples:\n  singularity apply -f examples/hello.toml\n  singularity apply -f manifests/ --timeout 2m --follow"
    )]
    Apply(Apply),
    /// Run the daemon in the foreground, on folders of manifests and on what was applied.
    #[command(
        after_help = "Files are read once they are at rest: half-written ones are not, and one that is away for less than a second is not missed.
SIGHUP reads them again; on a terminal, whose closing sends it, it stops the daemon.
Under systemd (Type=notify) it says when it is ready, alive and stopping.

Examples:
  singularity serve manifests/
  singularity serve --poll 5s /mnt/shared/manifests"
    )]
    Serve(Serve),
    /// List objects, or show one.
    #[command(
        after_help = "Examples:\n  singularity get beings\n  singularity get being/ada -o toml --show-origin\n  singularity get beings -o json"
    )]
    Get(Get),
    /// Show everything about one object: conditions, money, surfaces, and why it is as it is.
    #[command(after_help = "Example:\n  singularity describe being/ada")]
    Describe(One),
    /// Show a being's journal.
    #[command(after_help = "Examples:\n  singularity logs being/ada\n  singularity logs -f being/ada -o jsonl")]
    Logs(Logs),
    /// Take an applied object away: a being is stopped and its state kept.
    #[command(
        after_help = "Examples:\n  singularity delete being/ada\n  singularity delete being/ada --purge\n  singularity delete -f being.toml"
    )]
    Delete(Delete),
    #[command(flatten)]
    Operate(Operate),
    /// Stop the daemon and all its beings. Their state stays.
    Down(Down),
    /// Run one being in the foreground until it is stopped or has nothing left to do.
    #[command(
        after_help = "Examples:\n  singularity run -f ada.toml --being ada\n  BRAMA_HMAC_SECRET_FILE=key singularity run --resume"
    )]
    Run(Single),
    /// Run one cycle of one being and print its report as JSON.
    #[command(after_help = "Example:\n  singularity once -f ada.toml --being ada")]
    Once(Single),
    /// Print the catalogue of tools that a being would get.
    #[command(after_help = "Example:\n  singularity tools -f ada.toml --being ada --format table")]
    Tools(Tools),
    /// Check what a being needs, without running it: secrets, models, surfaces, tools, sandbox, clock, disk.
    #[command(
        after_help = "Exits with the code of the first thing that is bad: 2 configuration, 3 upstream, 4 state, 5 tools.\n\nExamples:\n  singularity doctor -f ada.toml --being ada\n  singularity doctor -f ada.toml -o json"
    )]
    Doctor(Doctor),
    /// See what is whole of a being's state, keep that, take it elsewhere, or accept an edit.
    #[command(subcommand)]
    State(State),
    /// List what waits for you: calls to approve, and what servers ask.
    #[command(after_help = "Examples:\n  singularity questions\n  singularity questions -o json")]
    Questions(Questions),
    /// Let a call that waits be made, once.
    #[command(after_help = "Example:\n  singularity approve ada.3")]
    Approve(Approve),
    /// Give a server what it asks for in the midst of a call.
    #[command(
        after_help = "Examples:\n  singularity answer ada.3 --value name=Ada --value age=36\n  singularity answer ada.3 --json '{\"name\": \"Ada\"}'"
    )]
    Answer(Answer),
    /// Let a call that waits not be made, or give a server no answer; the being is told.
    #[command(after_help = "Example:\n  singularity deny ada.3 --reason \"too expensive; ask for less\"")]
    Deny(Deny),
    /// See how good decisions were, say what would have been right, and take them away to learn from.
    #[command(subcommand)]
    Decisions(Decisions),
    /// Draw the tree of skills, or show how a message is led through it.
    #[command(
        after_help = "Examples:\n  singularity tree -f manifests/\n  singularity tree --being ada --why \"what time is it?\"\n  singularity tree -f manifests/ --decision routing --why \"what time is it?\" -o json"
    )]
    Tree(Tree),
    /// Make, check, test and run skills; bring them over from semif-agent, or take them there.
    #[command(subcommand)]
    Skill(Skill),
    /// Ask a model which of some options fits a state, and read its scores: nothing is written, and no text is parsed.
    #[command(
        after_help = "Examples:\n  singularity decide --state \"I cannot log in\" --question \"Which desk?\" \\\n    --option login=\"Trouble with signing in\" --option money=\"Invoices and refunds\"\n  singularity decide --rows decisions.jsonl --rotations 16 > answers.jsonl"
    )]
    Decide(Decide),
    /// Print the JSON Schema of manifests, or write all schemas.
    #[command(after_help = "Examples:\n  singularity schema\n  singularity schema being\n  singularity schema --write schemas/")]
    Schema(Schema),
    /// Explain a key of a manifest.
    #[command(after_help = "Examples:\n  singularity explain being.las.only\n  singularity explain --all")]
    Explain(Explain),
    /// Fetch the embedded models, or tell where they are.
    #[command(subcommand)]
    Model(Model),
    /// Print a completion script for a shell.
    #[command(after_help = "Example:\n  singularity completion bash > /etc/bash_completion.d/singularity")]
    Completion(Completion),
    /// Print the manual page of a command, or write those of all commands.
    #[command(
        after_help = "Examples:\n  singularity man | man -l -\n  singularity man state verify | man -l -\n  singularity man --write /usr/local/share/man/man1"
    )]
    Man(ManPages),
    /// Join the surfaces that manifests declare into one MCP server, on standard input and output or over HTTP.
    #[command(
        after_help = "Without -f it waits to be told by the daemon what to join.\n\nExamples:\n  singularity las -f manifests/ --only files,time\n  singularity las -f manifests/ --http 127.0.0.1:8080\n  singularity las -f manifests/ --http 0.0.0.0:8080 --bearer-file bearer"
    )]
    Las(Las),
    /// Own a child process and end with its parent. Started by the program itself.
    #[command(hide = true)]
    Supervise(Supervise),
    /// Print the version.
    Version,
}

/// Where manifests are.
#[derive(Debug, Args)]
pub(super) struct Files {
    /// A manifest, a folder of manifests, or `-` for standard input. May be given more than once.
    #[arg(short = 'f', long = "file", required = true, value_name = "PATH")]
    pub files: Vec<PathBuf>,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(super) struct Plan {
    #[command(flatten)]
    pub files: Files,
    /// The name of the set; without it that of the first file or folder.
    #[arg(long, value_name = "NAME")]
    pub set: Option<Name>,
    /// Exit with 1 when something would change or is refused, with 0 when nothing would.
    #[arg(long)]
    pub exit_code: bool,
}

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(super) struct Apply {
    #[command(flatten)]
    pub files: Files,
    /// The name of the set; without it that of the first file or folder. What an earlier apply of the set declared and this one
    /// does not is stopped.
    #[arg(long, value_name = "NAME")]
    pub set: Option<Name>,
    /// Show the plan and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not wait until all is as declared.
    #[arg(long, conflicts_with = "follow")]
    pub detach: bool,
    /// How long to wait until all is as declared.
    #[arg(long, default_value = "5m", value_name = "SPAN")]
    pub timeout: Span,
    /// Show the journals of the set's beings afterwards, until interrupted.
    #[arg(long)]
    pub follow: bool,
}

/// How something is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Table,
    Wide,
    Json,
    Jsonl,
    Toml,
    Name,
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub(super) struct Get {
    /// `beings`, `models`, `surfaces`, `all`, or one object such as `being/ada`.
    #[arg(default_value = "all", value_name = "WHAT")]
    pub what: String,
    /// How to print it.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// With `-o toml` of one object: tell from which layer each value came.
    #[arg(long)]
    pub show_origin: bool,
    /// Read the declaration from these manifests in the place of what was applied.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
}

/// Arguments of verbs on one object.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The object, such as `being/ada`.
    pub address: Address,
}

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The being, such as `being/ada` or `ada`.
    pub being: String,
    /// Go on with what comes.
    #[arg(short = 'f', long)]
    pub follow: bool,
    /// How many of the newest lines to begin with.
    #[arg(long, default_value_t = 100, value_name = "LINES")]
    pub tail: usize,
    /// `table` for people, `jsonl` for the lines as they are stored.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub(super) struct Delete {
    /// The object, such as `being/ada`.
    #[arg(required_unless_present_any = ["files", "set"], conflicts_with_all = ["files", "set"])]
    pub address: Option<Address>,
    /// Take away the set of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub set: Option<Name>,
    /// Take away the set that was applied from these files.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Remove the being's state too. There is no way back.
    #[arg(long, requires = "address")]
    pub purge: bool,
}

/// Arguments of `down`.
#[derive(Debug, Args)]
pub(super) struct Down {
    /// How long to wait for the daemon to end.
    #[arg(long, default_value = "1m", value_name = "SPAN")]
    pub timeout: Span,
}

/// Arguments of the verbs for one being without a daemon.
#[derive(Debug, Args)]
pub(super) struct Single {
    #[command(flatten)]
    pub which: Which,
    /// Continue the being that exists; without it a being of variables must be new.
    #[arg(long, env = "SINGULARITY_RESUME", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_missing_value = "true", default_value = "false")]
    pub resume: bool,
    /// Where the being's state is.
    #[arg(long, env = "SINGULARITY_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Which being, and what lies over its declaration.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// A manifest, a folder of manifests, or `-`. Without it variables and flags describe the being.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// The being of the manifest; needed where it declares more than one.
    #[arg(long, value_name = "NAME", requires = "files")]
    pub being: Option<Name>,
    #[command(flatten)]
    pub settings: Settings,
}

/// Arguments of `tools`.
#[derive(Debug, Args)]
pub(super) struct Tools {
    #[command(flatten)]
    pub which: Which,
    /// `json` for the definitions as models see them, `table` for names and descriptions.
    #[arg(short = 'o', long, visible_alias = "output", value_enum, default_value_t = ToolFormat::Json)]
    pub format: ToolFormat,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    pub single: Single,
    /// `table` for people, `json` for programs.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// How a catalogue is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ToolFormat {
    Json,
    Table,
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub(super) struct Schema {
    /// The schema's name; without it that of a whole manifest.
    #[arg(default_value = "manifest")]
    pub name: String,
    /// Write every schema into this folder in the place of printing one.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "schemas")]
    pub write: Option<PathBuf>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The key, such as `being.las.only`.
    #[arg(required_unless_present = "all")]
    pub path: Option<String>,
    /// Every field, with what a change of it does to what runs.
    #[arg(long, conflicts_with = "path")]
    pub all: bool,
}

/// What to do about the embedded model.
#[derive(Debug, Subcommand)]
pub(super) enum Model {
    /// Fetch a model and check it.
    Pull(Weights),
    /// Print where a model is.
    Path(Weights),
}

/// One of the models that are fetched.
#[derive(Debug, Args)]
pub(super) struct Weights {
    /// Which model: the one that writes and decides, or the one that compares meanings.
    #[arg(value_enum, default_value_t = Fetched::Language, value_name = "MODEL")]
    pub model: Fetched,
}

/// Names of the models that are fetched.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Fetched {
    /// SmolLM2-135M-Instruct, 98 MB.
    Language,
    /// all-MiniLM-L6-v2, 91 MB.
    Embedding,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(super) struct Completion {
    pub shell: clap_complete::Shell,
}

/// Arguments of the supervisor mode.
#[derive(Debug, Args)]
pub(super) struct Supervise {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<std::ffi::OsString>,
}

/// One flag for each setting, under the name of its variable.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings(pub Variables);

impl Args for Settings {
    fn augment_args(command: Command) -> Command {
        let flag = |setting: &crate::manifest::Setting| {
            Arg::new(setting.variable)
                .long(setting.flag)
                .value_name("VALUE")
                .help_heading("Over the manifest")
                .help(format!("{}.{} [env: {}]", setting.kind, setting.key, setting.variable))
        };
        command.args(SETTINGS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            |setting: &crate::manifest::Setting| Some((setting.variable, matches.get_one::<String>(setting.variable)?.clone()));
        Ok(Self(SETTINGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
