use serde::Serialize;

use super::{
    body::Body,
    fault::Phase,
    frame::{Ask, Made, Said},
    grant::Grant,
    host::{Desk, Host, Place, WorkError},
    inspect::Inspection,
    run::{Came, Outcome, Question, Run, Terms, Want},
};
use crate::decision::{Decision, DecisionRequest, Engine};

/// Something that happened in a run, for its trace and the log of decisions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Note {
    /// The engine decided: for the body (`predict`, `act`), or on the run (`assess:outcome`, `assess:requeue`).
    Decided {
        phase: &'static str,
        request: DecisionRequest,
        decision: Box<Decision>,
    },
    Predicted {
        text: String,
    },
    Acted {
        action_log: String,
        new_state: String,
    },
    /// What the body printed meanwhile: its last lines.
    Printed {
        lines: Vec<String>,
    },
    Asked {
        question: Question,
    },
    Requeued {
        reentries: u32,
    },
    Ended {
        outcome: Outcome,
    },
}

/// Where a run stopped.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// It waits for an answer; its process is gone, and the run can be put down.
    Asked(Question),
    Ended(Outcome),
}

/// Carries a run on until it asks or ends. After every note the run is what is to be kept.
///
/// A fault of the body ends the run; an engine that does not decide ends only this attempt, and the run can be taken up again.
pub async fn perform(
    run: &mut Run,
    terms: &Terms,
    (body, inspection): (&Body, &Inspection),
    (place, grant): (&Place, &Grant),
    engine: &Engine,
    mut note: impl FnMut(&Run, Note),
) -> Result<Stop, WorkError> {
    let grant = if inspection.is_local() { Grant { network: Vec::new(), ..grant.clone() } } else { grant.clone() };
    let mut host = None;
    loop {
        let want = run.want(terms);
        let came = match &want {
            Want::Ask(question) => {
                end(run, &mut host, &mut note).await;
                note(run, Note::Asked { question: question.clone() });
                return Ok(Stop::Asked(question.clone()));
            }
            Want::Nothing(outcome) => {
                end(run, &mut host, &mut note).await;
                note(run, Note::Ended { outcome: outcome.clone() });
                return Ok(Stop::Ended(outcome.clone()));
            }
            Want::Judge { phase, request } => {
                let decision = engine.decide(request).await?;
                let probability = decision.probabilities.first().copied().unwrap_or_default();
                note(run, Note::Decided { phase, request: request.clone(), decision: Box::new(decision) });
                Came::Judged { probability }
            }
            Want::Predict { may_decide } | Want::Act { may_decide, .. } => {
                let mut desk = Desk { engine, left: *may_decide, budget: terms.cost_budget, made: Vec::new() };
                let did = step(run, terms, &want, &mut host, (body, place, &grant), &mut desk).await;
                let phase = if matches!(want, Want::Predict { .. }) { "predict" } else { "act" };
                for (request, decision) in desk.made {
                    note(run, Note::Decided { phase, request, decision: Box::new(decision) });
                }
                match did {
                    Ok(came) => came,
                    Err(WorkError::Fault(fault)) => Came::Failed(fault),
                    Err(error) => return Err(error),
                }
            }
        };
        let (told, before) = (told(&came), run.request.reentries);
        run.take(terms, came);
        told.into_iter().for_each(|told| note(run, told));
        if run.request.reentries > before {
            note(run, Note::Requeued { reentries: run.request.reentries });
        }
    }
}

/// Ends the body's process, where there is one, and tells what it printed.
async fn end(run: &Run, host: &mut Option<Host>, note: &mut impl FnMut(&Run, Note)) {
    let Some(host) = host.take() else { return };
    let lines = host.end().await;
    if !lines.is_empty() {
        note(run, Note::Printed { lines });
    }
}

fn told(came: &Came) -> Option<Note> {
    match came {
        Came::Predicted { prediction, .. } => Some(Note::Predicted { text: prediction.text.clone() }),
        Came::Acted { result, .. } => {
            Some(Note::Acted { action_log: result.action_log.clone(), new_state: result.new_state.clone() })
        }
        Came::Judged { .. } | Came::Failed(_) => None,
    }
}

/// One stretch of the body's work, in its process, which is started where there is none yet.
async fn step(
    run: &Run,
    terms: &Terms,
    want: &Want,
    host: &mut Option<Host>,
    (body, place, grant): (&Body, &Place, &Grant),
    desk: &mut Desk<'_>,
) -> Result<Came, WorkError> {
    let host = match host {
        Some(host) => host,
        None => {
            let started = host.insert(Host::start(place, body, grant).await?);
            started.ask(Phase::Load, &Ask::Load).await?;
            started
        }
    };
    let (config, request) = (run.config(terms), &run.request);
    let allowed = desk.left;
    let decided = |desk: &Desk<'_>| allowed.saturating_sub(desk.left);
    if let Want::Act { prediction, .. } = want {
        let ask = Ask::Act { config: &config, request, prediction };
        let said = host.work(Phase::Act, &ask, desk).await?;
        let Said::Acted { result } = said else { return Err(host.garbled("no result").into()) };
        host.check_made(&fresh(&result.decisions, &prediction.decisions), desk)?;
        return Ok(Came::Acted { result, decided: decided(desk) });
    }
    let said = host.work(Phase::Predict, &Ask::Predict { config: &config, request }, desk).await?;
    let Said::Predicted { prediction } = said else { return Err(host.garbled("no prediction").into()) };
    host.check_made(&prediction.decisions, desk)?;
    Ok(Came::Predicted { prediction, decided: decided(desk) })
}

/// What is not of the prediction: an action may hand those on.
fn fresh(of_action: &[Made], of_prediction: &[Made]) -> Vec<Made> {
    of_action.iter().filter(|made| !of_prediction.contains(made)).cloned().collect()
}
