use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    args::Format,
    bench::{self, Bench},
    context::{Context, print, say},
    failure::{Class, Failure},
    table::table,
};
use crate::{
    decision::{Kept, LabelSource, LogError, Measure, Report, kept, relabel, report},
    runtime::Clock,
};

/// What to do about decisions that were made.
#[derive(Debug, Subcommand)]
pub(super) enum Decisions {
    /// Measure how good they were: likelihood, accuracy, calibration.
    #[command(
        after_help = "What was selected counts as right until a person says otherwise, so that only labelled rows tell how accurate decisions are.

Examples:
  singularity decisions report
  singularity decisions report -o json"
    )]
    Report(ReportDecisions),
    /// Say what would have been right. Such a row counts three times.
    #[command(after_help = "Example:\n  singularity decisions relabel 6f0c.2 email")]
    Relabel(RelabelDecision),
    /// Print the rows as JSON lines, to learn from.
    #[command(
        after_help = "Examples:\n  singularity decisions export > rows.jsonl\n  singularity decisions export --human > labelled.jsonl"
    )]
    Export(ExportDecisions),
    /// Measure engines on labelled rows that the program carries: 196 requests over 12 categories and 40 skills, 60 questions.
    #[command(after_help = "A temperature is fitted on every second row; what is told is true of the others.
RIGHT is the share of requests whose category, or of questions whose answer, is right; REJECTED that of requests which no skill
does and which none was chosen for; FLIPS that of rows decided otherwise once the options are reversed.

Examples:
  singularity decisions bench
  singularity decisions bench --engine embedding --engine readout --rows 24 -o json")]
    Bench(Bench),
}

/// Arguments of `decisions report`.
#[derive(Debug, Args)]
pub(super) struct ReportDecisions {
    /// `table` for people, `json` for programs.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of `decisions relabel`.
#[derive(Debug, Args)]
pub(super) struct RelabelDecision {
    /// The id of the decision.
    #[arg(value_name = "ID")]
    pub id: String,
    /// The option that would have been right.
    #[arg(value_name = "OPTION")]
    pub option: String,
}

/// Arguments of `decisions export`.
#[derive(Debug, Args)]
pub(super) struct ExportDecisions {
    /// Only rows that a person labelled.
    #[arg(long)]
    pub human: bool,
}

/// Does it.
pub(super) async fn decisions(context: &Context, verb: &Decisions) -> Result<(), Failure> {
    match verb {
        Decisions::Bench(arguments) => bench::bench(context, arguments).await,
        Decisions::Report(arguments) => {
            let kept = read(context)?;
            print(&rendered(&report(&kept.rows), arguments.output)?)
        }
        Decisions::Relabel(arguments) => {
            let folder = home(context)?;
            relabel(&folder, &arguments.id, &arguments.option, Clock::system().now()).map_err(|error| failed(&error))?;
            say("relabeled.");
            Ok(())
        }
        Decisions::Export(arguments) => {
            for row in read(context)?.rows {
                let is_human = row.label_source == LabelSource::Human;
                if is_human || !arguments.human {
                    let mut line = json!(row);
                    if let Some(fields) = line.as_object_mut() {
                        fields.insert("weight".to_owned(), json!(row.label_source.weight()));
                    }
                    print(&format!("{line}\n"))?;
                }
            }
            Ok(())
        }
    }
}

fn home(context: &Context) -> Result<std::path::PathBuf, Failure> {
    let none = || {
        let what = format!("there is no home at {}, so nothing was decided in it", context.home_path().display());
        Failure::new(Class::State, what)
    };
    Ok(context.existing_home()?.ok_or_else(none)?.path().to_owned())
}

fn read(context: &Context) -> Result<Kept, Failure> {
    let kept = kept(&home(context)?).map_err(|error| failed(&error))?;
    if kept.torn > 0 {
        say(&format!("{} lines of the log are no rows and were passed over", kept.torn));
    }
    Ok(kept)
}

fn failed(error: &LogError) -> Failure {
    let class = match error {
        LogError::Unusable { .. } => Class::State,
        LogError::Unknown(_) | LogError::NoOption { .. } => Class::Configuration,
    };
    Failure::of(class, error)
}

fn rendered(report: &Report, output: Format) -> Result<String, Failure> {
    match output {
        Format::Table | Format::Wide => Ok(told(report)),
        Format::Json => Ok(format!("{:#}\n", json!(report))),
        Format::Jsonl => Ok(format!("{}\n", json!(report))),
        Format::Name | Format::Toml => Err(Failure::new(Class::Configuration, "a report is printed as table, wide, json or jsonl")),
    }
}

fn told(report: &Report) -> String {
    let row = |(phase, measure): (&str, &Measure)| {
        let labelled = measure.human_accuracy.map_or_else(|| "-".to_owned(), |share| format!("{share:.3}"));
        let numbers = [measure.nll, measure.cross_entropy, measure.accuracy];
        let mut row = vec![phase.to_owned(), measure.rows.to_string(), measure.human.to_string()];
        row.extend(numbers.map(|number| format!("{number:.3}")));
        row.extend([labelled, format!("{:.3}", measure.ece)]);
        row
    };
    let phases = report.phases.iter().map(|(phase, measure)| (phase.as_str(), measure));
    let rows = std::iter::once(("all", &report.all)).chain(phases).map(row).collect();
    let mut text = table(&["PHASE", "ROWS", "LABELLED", "NLL", "CROSS-ENTROPY", "ACCURACY", "OF LABELLED", "ECE"], rows);
    if report.skipped > 0 {
        text.push_str(&format!("{} rows are skipped: they selected nothing, or their label is no option\n", report.skipped));
    }
    if report.worst.iter().any(|row| row.selected != row.observed) {
        let rows = report.worst.iter().map(|row| {
            vec![row.id.clone(), row.phase.clone(), row.selected.clone(), row.observed.clone(), format!("{:.3}", row.cost)]
        });
        text.push_str(&format!("\n{}", table(&["COSTLIEST", "PHASE", "SELECTED", "RIGHT", "COST"], rows.collect())));
    }
    text
}
