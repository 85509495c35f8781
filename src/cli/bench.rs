use clap::Args;
use serde_json::json;

use super::{
    args::Format,
    context::{Context, print, say},
    decide::{Asked, By, How, engine},
    failure::{Class, Failure},
    table::table,
};
use crate::{
    decision::{Score, Sets},
    runtime::Clock,
};

/// Arguments of `decisions bench`.
#[derive(Debug, Args)]
pub(super) struct Bench {
    /// Which engines are measured, on the models that `singularity model pull` brings.
    #[arg(long = "engine", value_enum, default_values_t = [By::Embedding], value_name = "ENGINE")]
    pub engines: Vec<By>,
    /// Measure on about so many rows of each set alone; the readout takes seconds for each on a small machine.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(4..))]
    pub rows: Option<u16>,
    /// `table` for people, `json` for programs.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Measures engines on the sets that the program carries.
pub(super) async fn bench(context: &Context, arguments: &Bench) -> Result<(), Failure> {
    let sets = Sets::built_in().map_err(|error| Failure::of(Class::Runtime, &error))?;
    let sets = arguments.rows.map_or_else(|| sets.clone(), |rows| sets.clone().cut(rows.into()));
    let now = Clock::system().as_function();
    let mut scores = Vec::new();
    for by in &arguments.engines {
        let engine = engine(context, *by, &Asked::default(), How { rotations: 1, ..How::default() }).await?;
        let failed = |error| Failure::of(Class::Upstream, &error);
        say(&format!("measuring {}", name(*by)));
        scores.push((name(*by), "routing", sets.routing(&engine, &*now).await.map_err(failed)?));
        scores.push((name(*by), "yes or no", sets.yes_no(&engine, &*now).await.map_err(failed)?));
    }
    match arguments.output {
        Format::Json => {
            let rows = scores.iter().map(|(engine, set, score)| json!({ "engine": engine, "set": set, "score": score }));
            print(&format!("{:#}\n", json!(rows.collect::<Vec<_>>())))
        }
        _ => print(&told(&scores)),
    }
}

const fn name(by: By) -> &'static str {
    match by {
        By::Readout => "readout",
        By::Embedding => "embedding",
    }
}

fn told(scores: &[(&str, &str, Score)]) -> String {
    let heads =
        ["ENGINE", "SET", "ROWS", "RIGHT", "WITH SKILL", "REJECTED", "FLIPS", "ECE", "ECE FITTED", "TEMPERATURE", "PER SECOND"];
    let share = |share: f64| format!("{share:.3}");
    let maybe = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), share);
    let row = |(engine, set, score): &(&str, &str, Score)| {
        let Score { rows, accuracy, leaf_accuracy, rejection, flips, ece, fitted_ece, fitted_temperature, per_second, .. } = score;
        let mut row = vec![(*engine).to_owned(), (*set).to_owned(), rows.to_string(), share(*accuracy), maybe(*leaf_accuracy)];
        row.extend([maybe(*rejection), share(*flips), share(*ece), share(*fitted_ece), share(*fitted_temperature)]);
        row.push(format!("{per_second:.1}"));
        row
    };
    let mut text = table(&heads, scores.iter().map(row).collect());
    for (engine, set, score) in scores.iter().filter(|(_, _, score)| !score.by_kind.is_empty()) {
        let kinds = score.by_kind.iter().map(|(kind, right)| format!("{kind} {right:.3}"));
        text.push_str(&format!("{engine}, {set}, right by kind: {}\n", kinds.collect::<Vec<_>>().join(", ")));
    }
    text
}
