use std::{fmt, str::FromStr};

use clap::Args;
use serde_json::{Map, Value, json};

use super::{
    args::Format,
    context::{Context, asked, print, say},
    failure::{Class, Failure},
    get::list,
    table::table,
};
use crate::{
    api::{self, AnswerRequest, Client, ConsentRequest, ObjectStatus, QuestionFacts, Word},
    vocab::{BadName, Name},
};

/// Arguments of `questions`.
#[derive(Debug, Args)]
pub(super) struct Questions {
    /// How to print them.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// Arguments of `approve`.
#[derive(Debug, Args)]
pub(super) struct Approve {
    /// The question, such as `ada.3`.
    pub id: QuestionId,
}

/// Arguments of `answer`.
#[derive(Debug, Args)]
pub(super) struct Answer {
    /// The question, such as `ada.3`.
    pub id: QuestionId,
    /// One value; text is read as the number, truth value or list that is asked for.
    #[arg(long = "value", value_name = "NAME=VALUE", value_parser = named)]
    pub values: Vec<(String, String)>,
    /// All values as one JSON object; what `--value` says comes on top.
    #[arg(long, value_name = "OBJECT", value_parser = object)]
    pub json: Option<Map<String, Value>>,
}

/// Arguments of `deny`.
#[derive(Debug, Args)]
pub(super) struct Deny {
    /// The question, such as `ada.3`.
    pub id: QuestionId,
    /// What the being is told.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

/// A question by its being and its number, `ada.3`, or by the surface that asks, `surface/far`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuestionId {
    Being { being: Name, number: u64 },
    Surface(Name),
}

/// What the id of a surface's question begins with.
const SURFACE: &str = "surface/";

impl FromStr for QuestionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(surface) = text.strip_prefix(SURFACE) {
            return surface.parse().map(Self::Surface).map_err(|error: BadName| error.to_string());
        }
        let parted = text.rsplit_once('.').and_then(|(being, number)| Some((being.parse().ok()?, number.parse().ok()?)));
        let (being, number) = parted.ok_or("write a being and a number, such as ada.3; `singularity questions` lists them")?;
        Ok(Self::Being { being, number })
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Being { being, number } => write!(f, "{being}.{number}"),
            Self::Surface(surface) => write!(f, "{SURFACE}{surface}"),
        }
    }
}

/// Bytes of a reason.
const MAX_REASON: usize = 4_096;

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_plain = !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    match text.len() {
        1..=MAX_REASON if is_plain => Ok(text.to_owned()),
        _ => Err(format!("a reason is 1 to {MAX_REASON} bytes of text without control characters")),
    }
}

fn named(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write a name and its value, such as name=Ada")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("write a JSON object, such as '{{\"name\": \"Ada\"}}': {error}"))
}

/// Characters of arguments that a row shows.
const SHOWN: usize = 60;

/// Lists what waits for a person.
pub(super) async fn questions(context: &Context, arguments: &Questions) -> Result<(), Failure> {
    let list = list(context).await?;
    let asked = |object: ObjectStatus| object.question.or_else(|| object.being?.question);
    let waiting: Vec<QuestionFacts> = list.items.into_iter().filter_map(asked).collect();
    match arguments.output {
        Format::Json => print(&format!("{:#}\n", json!(waiting))),
        Format::Jsonl => print(&waiting.iter().map(|question| format!("{}\n", json!(question))).collect::<String>()),
        Format::Name => print(&waiting.iter().map(|question| format!("{}\n", question.id)).collect::<String>()),
        Format::Toml => {
            Err(Failure::new(Class::Configuration, "questions are not printed as toml").hinting("use `-o json` or `-o jsonl`"))
        }
        Format::Table | Format::Wide if waiting.is_empty() => {
            say("nothing waits for you");
            Ok(())
        }
        Format::Table | Format::Wide => {
            let addresses =
                waiting.iter().filter(|question| question.id.starts_with(SURFACE)).filter_map(opened).collect::<String>();
            print(&rows(waiting, arguments.output == Format::Wide))?;
            if !addresses.is_empty() {
                say(addresses.trim_end());
            }
            Ok(())
        }
    }
}

/// What to do about a surface that asks for consent; an address is of no use when it is cut.
fn opened(question: &QuestionFacts) -> Option<String> {
    let (id, url) = (&question.id, question.form.as_ref()?.url.as_ref()?);
    Some(format!(
        "\n{id}: open\n  {url}\nand give the address that the browser is sent to, even if it shows nothing there:\n  \
         singularity answer {id} --value code='ADDRESS'\n"
    ))
}

fn rows(waiting: Vec<QuestionFacts>, is_wide: bool) -> String {
    let short = |text: String| match text.char_indices().nth(SHOWN) {
        Some((at, _)) if !is_wide => format!("{}…", text.get(..at).unwrap_or_default()),
        _ => text,
    };
    let plain = |text: String| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let row = |question: QuestionFacts| {
        let second = |time: &str| time.split('.').next().unwrap_or_default().trim_end_matches('Z').replace('T', " ");
        let asks = question
            .form
            .map_or(question.arguments, |form| form.url.map_or(form.message.clone(), |url| format!("{} {url}", form.message)));
        vec![question.id, question.tool, short(plain(asks)), second(&question.asked_at), second(&question.until)]
    };
    table(&["ID", "TOOL", "ARGUMENTS OR QUESTION", "ASKED (UTC)", "UNTIL (UTC)"], waiting.into_iter().map(row).collect())
}

/// Lets a call be made.
pub(super) async fn approve(context: &Context, arguments: &Approve) -> Result<(), Failure> {
    tell(context, &arguments.id, api::Answer::Approved, Map::new()).await?;
    say(&format!("approved {}", arguments.id));
    Ok(())
}

/// Lets a call not be made, and tells the being why.
pub(super) async fn deny(context: &Context, arguments: &Deny) -> Result<(), Failure> {
    tell(context, &arguments.id, api::Answer::Denied { reason: arguments.reason.clone() }, Map::new()).await?;
    say(&format!("denied {}", arguments.id));
    Ok(())
}

/// Gives a server what it asks for.
pub(super) async fn answer(context: &Context, arguments: &Answer) -> Result<(), Failure> {
    let mut values = arguments.json.clone().unwrap_or_default();
    values.extend(arguments.values.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))));
    match &arguments.id {
        QuestionId::Being { .. } => tell(context, &arguments.id, api::Answer::Given, values).await?,
        QuestionId::Surface(surface) => consent(context, surface, &values).await?,
    }
    say(&format!("answered {}", arguments.id));
    Ok(())
}

async fn tell(context: &Context, id: &QuestionId, answer: api::Answer, values: Map<String, Value>) -> Result<(), Failure> {
    let QuestionId::Being { being, number } = id.clone() else {
        let hint = format!("`singularity answer {id} --value code=…` answers it; without an answer it waits");
        return Err(
            Failure::new(Class::Configuration, format!("{id} asks for the consent of a browser, not for a word")).hinting(hint)
        );
    };
    let client = client(context)?;
    client.answer(&AnswerRequest { being, number, word: Word { answer, values } }).await.map_err(|error| asked(&error))
}

/// Hands over the address that a browser was sent to.
async fn consent(context: &Context, surface: &Name, values: &Map<String, Value>) -> Result<(), Failure> {
    let Some(answer) = values.get("code").and_then(Value::as_str) else {
        let what = format!("surface/{surface} wants the address that the browser was sent to");
        return Err(Failure::new(Class::Configuration, what).hinting("give it with --value code='http://…'"));
    };
    let request = ConsentRequest { surface: surface.clone(), answer: answer.to_owned() };
    client(context)?.consent(&request).await.map_err(|error| asked(&error))
}

fn client(context: &Context) -> Result<Client, Failure> {
    context.client()?.ok_or_else(|| {
        let what = format!("no daemon runs for {}, so nobody can be told", context.home_path().display());
        let hint = "start it with `singularity apply -f …` or `singularity serve DIR`; the question waits in the home";
        Failure::new(Class::State, what).hinting(hint)
    })
}
