//! How long a cycle may take: past its deadline it ends before its next effect.

use std::{collections::VecDeque, time::Duration};

use super::{
    chat::ToolCall,
    event::Event,
    exchange::Ready,
    outcome::Outcome,
    report::CycleStatus,
    rules::Rules,
    step::{Being, Cycle, Turn},
};
use crate::vocab::Timestamp;

impl Being {
    /// Ends a cycle that took longer than it may; `Ok` hands back one that did not. The calls that were not begun are answered, and the
    /// being and its operator are told.
    pub(super) fn end_if_overdue(
        &mut self,
        rules: &Rules,
        mut cycle: Cycle,
        queue: &VecDeque<ToolCall>,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Result<Cycle, Turn> {
        let took = cycle.began.and_then(|began| Duration::try_from(now.duration_since(began)).ok());
        let Some(deadline) = rules.limits.deadline.filter(|deadline| took > Some(deadline.as_duration())) else { return Ok(cycle) };
        for call in queue {
            self.finish(call, Outcome::failed("deadline", "the deadline of the cycle passed before this call began"), ready, now);
        }
        self.tell_cut_off(&mut cycle, ready, now);
        let message = format!("Your cycle was ended, for it took longer than the {deadline} that it may. Go on in the next one.");
        self.note(ready, Event::Told { message }, now);
        let message = format!("the cycle took longer than its deadline of {deadline}, so it ended");
        self.note(ready, Event::Warning { message }, now);
        Err(self.rest(CycleStatus::Deadline, None, cycle.actions, ready))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        being::{
            Answer, Approval, Completion, Effect, Finish, Input, Limits, Price, Status, ThinkError, ThinkErrorClass, Thought,
            ToolDefinition, Usage, simulation, testing,
        },
        vocab::Span,
    };

    fn rules(deadline: Option<&str>) -> Rules {
        let deadline = deadline.map(|text| text.parse().unwrap());
        simulation::rules(8_000, Limits { deadline, ..Limits::default() })
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn asks(tools: &[&str]) -> Input {
        let calls = tools.iter().map(|tool| ToolCall::new(format!("call-{tool}"), *tool, "{}")).collect();
        let completion = Completion {
            model: "smol".into(),
            content: None,
            tool_calls: calls,
            finish: Finish::ToolCalls,
            usage: Usage::new(1, 1),
        };
        let thought = Thought { completion, price: Price::default(), passed_over: Vec::new() };
        Input::Thought { result: Ok(thought), elapsed: Span::ZERO }
    }

    fn done() -> Input {
        Input::Called(Outcome::success(json!({})))
    }

    #[test]
    fn a_cycle_past_its_deadline_begins_no_further_call_and_says_so() {
        let (rules, mut being) = (rules(Some("10m")), Being::new(testing::state()));
        being.step(&rules, Input::Wake, at(0));
        being.step(&rules, asks(&["a", "b", "c"]), at(1));
        let second = being.step(&rules, done(), at(10));
        assert!(matches!(second.then, Some(Effect::Call(_))), "ten minutes are not more than ten");
        let ready = being.step(&rules, done(), at(11));
        let ended = ready.facts.iter().filter_map(|fact| match fact {
            Event::ToolFinished { tool, status, error_code, .. } => Some((tool.as_str(), *status, error_code.as_deref())),
            _ => None,
        });
        assert_eq!(ended.collect::<Vec<_>>(), [("b", Status::Success, None), ("c", Status::Failed, Some("deadline"))]);
        let warned = "the cycle took longer than its deadline of 10m, so it ended";
        assert!(ready.facts.contains(&Event::Warning { message: warned.into() }), "{ready:?}");
        let Some(Effect::Rest(report)) = ready.then else { panic!("{ready:?}") };
        assert_eq!((report.status, report.actions), (CycleStatus::Deadline, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(serde_json::to_value(report.status).unwrap(), "deadline");
        testing::assert_well_formed(&being.state().conversation);
        let next = being.step(&rules, Input::Wake, at(12));
        assert!(matches!(next.then, Some(Effect::Think { .. })), "the next cycle has a time of its own");
    }

    #[test]
    fn a_model_that_does_not_answer_holds_no_cycle_beyond_its_deadline() {
        let error =
            || ThinkError { class: ThinkErrorClass::Transient { retry_after: None }, message: "503".into(), spent: Vec::new() };
        let fails = || Input::Thought { result: Err(error()), elapsed: Span::ZERO };
        for (deadline, ends) in [(Some("10m"), true), (None, false)] {
            let (rules, mut being) = (rules(deadline), Being::new(testing::state()));
            being.step(&rules, Input::Wake, at(0));
            assert!(matches!(being.step(&rules, fails(), at(9)).then, Some(Effect::Think { .. })));
            assert_eq!(matches!(being.step(&rules, fails(), at(11)).then, Some(Effect::Rest(_))), ends, "{deadline:?}");
        }
    }

    #[test]
    fn a_call_that_a_person_allows_late_is_made() {
        let tools = globset::GlobSetBuilder::new().add(globset::Glob::new("pay").unwrap()).build().unwrap();
        let tool = ToolDefinition { name: "pay".into(), description: String::new(), parameters: json!({}) };
        let approval = Approval { tools, within: Span::from_secs(86_400) };
        let (rules, mut being) = (Rules { approval, tools: [tool].into(), ..rules(Some("10m")) }, Being::new(testing::state()));
        being.step(&rules, Input::Wake, at(0));
        let asked = being.step(&rules, asks(&["pay"]), at(1));
        assert!(matches!(asked.then, Some(Effect::Ask(_))));
        let allowed = being.step(&rules, Input::Answered { number: 1, answer: Answer::Approved }, at(600));
        assert!(matches!(allowed.then, Some(Effect::Call(_))), "{allowed:?}");
        let after = being.step(&rules, done(), at(605));
        assert!(matches!(after.then, Some(Effect::Think { .. })), "the wait for a person does not count: {after:?}");
    }
}
