//! The tree of skills: how it is drawn, how a message is led through it, and the way to semif-agent and back.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use serde_json::{Value, json};
use support::{
    Home,
    openai::{Reply, Seen, Server},
};

const TREE: &str = r#"
[decision.careful]
model = "scripted"
rotations = 4
[category.time]
description = "Clocks, dates and alarms."
[category.time.skill.now]
description = "Say the current time."
body = "skills/now.py"
[category.time.skill."alarm.set"]
description = "Set an alarm."
[category.email]
description = "Mail."
skill.compose = { description = "Write a draft." }
[category.response]
description = "Canned replies."
skill.greeting = { description = "Greet back.", response = "Hello." }
skill.clarify = { description = "Anything else.", response = "What do you mean?" }
[being.ada]
model = "scripted"
categories = ["time", "email", "response"]
decision = "careful"
[being.bob]
model = "scripted"
"#;

/// A model that likes the options which it is told to like, wherever they stand, and beside that the letter A.
fn likes(descriptions: &'static [&'static str]) -> impl Fn(&Seen) -> Reply {
    move |seen| {
        let asked: Value = serde_json::from_str(seen.said_by("user")[0]).expect("the decision as JSON");
        assert_eq!(asked["evidence"], "wake me at six");
        let options = asked["options"].as_array().expect("options");
        let listed = options.iter().map(|option| {
            // A category says in further lines what its skills do.
            let first = option["description"].as_str().and_then(|text| text.lines().next());
            let is_liked = first.is_some_and(|line| descriptions.contains(&line));
            let bias = if option["letter"] == "A" { 1.0 } else { 0.0 };
            json!({ "token": option["letter"], "logprob": bias - if is_liked { 2.0 } else { 8.0 } })
        });
        let logprobs = json!({ "content": [{ "token": "A", "logprob": -0.2, "top_logprobs": listed.collect::<Vec<_>>() }] });
        let message = json!({ "role": "assistant", "content": "A" });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "length", "logprobs": logprobs });
        Reply::json(200, &json!({ "model": "big", "choices": [choice], "usage": { "prompt_tokens": 9, "completion_tokens": 1 } }))
    }
}

fn declare(home: &Home, server: &Server, tree: &str) {
    home.write("fleet.toml", &format!("{}{tree}", server.model()));
}

#[test]
fn a_message_is_led_to_its_skill_by_decisions_that_can_all_be_seen() {
    let (home, server) = (Home::new(), Server::start(likes(&["Clocks, dates and alarms.", "Set an alarm."])));
    declare(&home, &server, TREE);
    let why = ["tree", "-f", "fleet.toml", "--being", "ada", "--why", "wake me at six"];
    let walk = home.run(&[&why[..], &["-o", "json"]].concat()).ok().json();
    assert_eq!(walk["outcome"], json!({ "outcome": "skill", "category": "time", "skill": "alarm.set" }));
    let steps = walk["steps"].as_array().expect("steps");
    let phases: Vec<_> = steps.iter().map(|step| step["phase"].as_str().expect("a phase")).collect();
    assert_eq!(phases, ["navigate:category", "navigate:category_scope", "navigate:leaf", "navigate:intent"]);
    for step in steps {
        let probabilities = step["decision"]["probabilities"].as_array().expect("numbers").iter().filter_map(Value::as_f64);
        assert!((probabilities.sum::<f64>() - 1.0).abs() < 1e-9, "{step:#}");
    }
    assert_eq!(steps[0]["decision"]["option_ids"], json!(["time", "email", "none"]), "canned replies are no category");
    assert_eq!(server.seen().len(), 3 + 2 + 2 + 2, "each order of each decision is shown once");
    let told = home.run(&why).ok().stdout;
    for line in
        ["navigate:leaf: Within category `time`, which skill does what is asked?", "  alarm.set  ", "time.alarm.set: nothing yet"]
    {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(!home.path().exists(), "a look makes no home");
}

#[test]
fn what_fits_no_skill_gets_a_canned_reply_or_no_skill() {
    let (home, server) =
        (Home::new(), Server::start(likes(&["None of these: the request is about something else.", "Anything else."])));
    declare(&home, &server, TREE);
    let why = |being: &str| {
        home.run(&["tree", "-f", "fleet.toml", "--being", being, "--why", "wake me at six", "-o", "name"]).ok().stdout
    };
    assert_eq!(why("ada"), "response.clarify\n");
    let mute = TREE.replace("[\"time\", \"email\", \"response\"]", "[\"time\", \"email\"]");
    declare(&home, &server, &mute);
    assert_eq!(why("ada"), "no_skill\n");
}

#[test]
fn options_in_another_order_lead_to_the_same_leaf() {
    let (home, server) = (Home::new(), Server::start(likes(&["Clocks, dates and alarms.", "Say the current time."])));
    for order in [r#"["time", "email", "response"]"#, r#"["email", "time", "response"]"#, r#"["response", "email", "time"]"#] {
        declare(&home, &server, &TREE.replace(r#"["time", "email", "response"]"#, order));
        let said = home.run(&["tree", "-f", "fleet.toml", "--being", "ada", "--why", "wake me at six", "-o", "name"]).ok();
        assert_eq!(said.stdout, "time.now\n", "{order}");
    }
}

#[test]
fn a_tree_is_drawn_with_what_does_each_of_its_skills() {
    let (home, server) = (Home::new(), Server::start(likes(&[])));
    declare(&home, &server, TREE);
    let drawn = home.run(&["tree", "-f", "fleet.toml"]).ok().stdout.replace(home.around().to_str().expect("UTF-8"), "<here>");
    let wanted = "\
SKILL         DOES                       BY
email         Mail.
└─ compose    Write a draft.             nothing yet
response      Canned replies.
├─ clarify    Anything else.             \"What do you mean?\"
└─ greeting   Greet back.                \"Hello.\"
time          Clocks, dates and alarms.
├─ alarm.set  Set an alarm.              nothing yet
└─ now        Say the current time.      <here>/skills/now.py
";
    assert_eq!(drawn, wanted);
    let refused = home.run(&["tree", "-f", "fleet.toml", "--being", "bob"]);
    assert!(refused.code() == 2 && refused.stderr.contains("being/bob has no categories"), "{}", refused.stderr);
    let unknown = home.run(&["tree", "-f", "fleet.toml", "--why", "x", "--decision", "gone"]);
    assert!(
        unknown.code() == 2 && unknown.stderr.contains("decision/gone is not declared; there are careful"),
        "{}",
        unknown.stderr
    );
    assert!(server.seen().is_empty(), "no model was asked");
}

#[test]
fn skills_of_another_agent_come_over_with_their_bodies_and_go_back() {
    let home = Home::new();
    let registry = json!({
        "email": { "description": "Mail.", "skills": [
            { "name": "compose", "description": "Write a draft.", "request_text": "write to Sam", "requirements": { "Which box?": "in" } },
            { "name": "next", "description": "Read the next message." },
        ] },
        "time": { "description": "Clocks.", "skills": [{ "name": "now", "description": "Say the time." }] },
    });
    home.write("categories.json", &registry.to_string());
    for body in ["bodies/email/compose/skill.py", "bodies/time/now.py"] {
        home.write(body, "def act(ctx, request): ...\n");
    }
    let imported = home.run(&["skill", "import", "categories.json", "--bodies", "bodies"]).ok();
    let manifest = home.write("skills.toml", &imported.stdout);
    let manifest = manifest.to_str().expect("UTF-8");
    home.run(&["validate", "-f", manifest]).ok();
    assert_eq!(home.run(&["skill", "export", "-f", manifest]).ok().json(), registry);
    let tree = home.run(&["tree", "-f", manifest]).ok().stdout;
    for end in ["bodies/email/compose/skill.py", "nothing yet", "bodies/time/now.py"] {
        assert!(tree.contains(end), "{end}\n{tree}");
    }
    home.write("categories.json", "{\"a-b\": {}}");
    let refused = home.run(&["skill", "import", "categories.json"]);
    assert!(refused.code() == 2 && refused.stderr.contains("`a-b` cannot name a category"), "{}", refused.stderr);
    assert!(refused.stdout.is_empty());
}
