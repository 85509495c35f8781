use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::being::{
    AgentState, Limits, Record,
    simulation::{World, check, rules},
    testing,
};

fn spawn(name: &str, usd: Option<&str>) -> Spawn {
    let usd = usd.map(testing::usd);
    Spawn { id: Uuid::from_u128(7), name: name.into(), ticker: "SCT".into(), specialty: "maps".into(), usd, pid: 1 }
}

fn terms(max: u32, budget: &str) -> Option<ChildTerms> {
    Some(ChildTerms { max, budget: testing::usd(budget) })
}

/// What a being with ten dollars and these children is told when it asks for a child.
fn told(children: &[(&str, ChildStatus)], terms: Option<ChildTerms>, spawn: Spawn) -> Result<Child, String> {
    let mut state = testing::state();
    for (n, (called, status)) in (100..).zip(children) {
        let mut child = testing::child(n);
        (child.called, child.status) = ((*called).to_owned(), *status);
        state.mind.children.push(child);
    }
    let call = ToolCall::new("c", "singularity_spawn_child", "{}");
    Being::new(state).admit(terms, spawn, &call, Timestamp::UNIX_EPOCH).map_err(|error| error.to_string())
}

#[test]
fn a_child_beyond_what_the_operator_allows_is_refused_in_plain_words() {
    use ChildStatus::{Deleted, Exhausted, Running};
    let living = [("a", Running), ("b", Running)];
    let refused = |children: &[(&str, ChildStatus)], terms, name: &str, usd| told(children, terms, spawn(name, usd)).unwrap_err();
    assert_eq!(refused(&[], None, "x", None), "the operator allows no children");
    assert_eq!(
        refused(&living, terms(2, "1"), "x", None),
        "2 children live, and the operator allows 2; one that has spent all its money or was deleted does not count"
    );
    assert_eq!(
        refused(&[], terms(2, "1"), "x", Some("1.000000000000001")),
        "the operator lets a child be born with up to 1 USD, and 1.000000000000001 were asked for"
    );
    assert_eq!(refused(&[], terms(2, "1"), "x", Some("0")), "a child is born with more than 0 USD, and 0 were asked for");
    assert_eq!(
        refused(&[], terms(2, "11"), "x", None),
        "10 USD are left, and the child would be born with 11; ask for less with `usd`"
    );
    assert_eq!(
        refused(&[("scout", Deleted)], terms(2, "1"), "  Scout! ", None),
        "a child called `scout` was made before; choose another name"
    );
    let made = told(&[("a", Exhausted), ("b", Deleted), ("c", Running)], terms(2, "10"), spawn("Scout", None)).unwrap();
    assert_eq!(
        (made.usd, made.called.as_str(), made.status),
        (testing::usd("10"), "scout", Running),
        "it may give all that it has"
    );
}

#[test]
fn whatever_a_child_is_named_its_address_is_plain() {
    let id = Uuid::from_u128(0x1234_5678 << 96);
    for (name, plain) in [
        ("Scout", "scout"),
        ("  The 2nd — Scout ", "the-2nd-scout"),
        ("../../etc", "etc"),
        ("a.b/c", "a-b-c"),
        ("東京", "child-12345678"),
        ("-", "child-12345678"),
    ] {
        assert_eq!(called(name, id), plain);
    }
}

proptest! {
    #[test]
    fn any_name_makes_an_address(name in any::<String>()) {
        let parent = crate::vocab::Name::try_from("ada").unwrap();
        prop_assert!(parent.child(&called(&name, Uuid::nil())).is_ok());
    }
}

/// The lives of children, as whoever animates them made them of what their parent's journal says: what each was born with.
type Nursery = BTreeMap<Uuid, Usd>;

/// Makes what is missing, and dies after any of it.
fn tend(nursery: &mut Nursery, parent: &AgentState, world: &mut World) {
    for child in parent.mind.children.iter().filter(|child| child.status != ChildStatus::Deleted) {
        if world.dies() {
            return;
        }
        nursery.entry(child.id).or_insert(child.usd);
    }
}

fn spawned(record: &Record) -> Option<&Child> {
    if let Event::ChildSpawned { child } = &record.event { Some(child) } else { None }
}

/// What a parent and its children have together is what there was, less what the parent spent, wherever the process died.
fn check_family(world: &World, nursery: &Nursery, terms: ChildTerms) {
    let state = world.replay();
    let born: Usd = nursery.values().copied().sum();
    let unborn = state.mind.children.iter().filter(|child| !nursery.contains_key(&child.id));
    let unborn: Usd = unborn.inspect(|child| assert_eq!(child.status, ChildStatus::Deleted)).map(|child| child.usd).sum();
    assert_eq!(state.budget.given, born + unborn, "what left the parent is what its children were born with");
    let mut own = state.budget.clone();
    (own.given, own.remaining) = (Usd::ZERO, own.remaining + born + unborn);
    assert!(own.is_balanced(), "money was lost or made: {own:?}");
    let made: Vec<&Child> = world.journal.iter().filter_map(spawned).collect();
    let ids: BTreeSet<Uuid> = made.iter().map(|child| child.id).collect();
    assert_eq!((ids.len(), state.mind.children.len()), (made.len(), made.len()), "a child is made once");
    assert!(nursery.keys().all(|id| ids.contains(id)), "no child without a record");
    let mut seen = AgentState::born(&world.journal[0]).unwrap();
    for record in &world.journal[1..] {
        seen.apply(record);
        let living = seen.mind.children.iter().filter(|child| child.status == ChildStatus::Running).count();
        assert!(living <= usize::try_from(terms.max).unwrap(), "{living} live at once");
        let Some(child) = spawned(record) else { continue };
        assert!(child.usd <= terms.budget && !seen.budget.remaining.is_negative(), "no more is given than there is and may be");
    }
    for child in made {
        let tells = |record: &&Record| matches!(&record.event, Event::ToolFinished { status: Status::Success, result, .. } if result.contains(&child.id.to_string()));
        assert_eq!(world.journal.iter().filter(tells).count(), 1, "a being knows of each child that it paid for");
    }
}

#[test]
fn the_money_of_parent_and_children_is_conserved_wherever_a_process_dies() {
    let (mut made, mut crashes, mut torn, mut refused) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut world = World::new(seed, false);
        world.spawns = true;
        let terms = ChildTerms { max: 2, budget: testing::usd("0.7") };
        let rules = Rules { children: Some(terms), ..rules(2_000, Limits::default()) };
        let mut nursery = Nursery::new();
        for _ in 0..12 {
            let _ended = world.live(&rules, 40);
            let parent = world.replay();
            torn += parent.mind.children.iter().filter(|child| child.call_id.is_some()).count();
            tend(&mut nursery, &parent, &mut world);
        }
        let mut being = Being::new(world.replay());
        let facts = being.recover(&world.open_calls(), Timestamp::UNIX_EPOCH).facts;
        world.write(being.state().cycle, facts);
        nursery
            .extend(being.state().mind.children.iter().filter(|child| child.status != ChildStatus::Deleted).map(|c| (c.id, c.usd)));
        check(&world);
        check_family(&world, &nursery, terms);
        made += nursery.len();
        crashes += world.crashes;
        refused += world
            .journal
            .iter()
            .filter(|record| matches!(&record.event, Event::ToolFinished { error_code: Some(code), .. } if code == REFUSED))
            .count();
    }
    assert!(
        made > 300 && crashes > 300 && torn > 3 && refused > 100,
        "{made} made, {crashes} crashes, {torn} torn, {refused} refused"
    );
}
