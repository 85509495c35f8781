use super::body::SkillAddress;

const BODY: &str = include_str!("python/new_skill.py");
const TRIAL: &str = include_str!("python/new_test.py");

/// The files of a new skill, by their names: a body that the gate accepts, and a test that it passes.
pub fn scaffold(name: &SkillAddress) -> [(String, String); 2] {
    let filled = |text: &str| text.replace("CATEGORY", name.category()).replace("LEAF", name.leaf());
    [("skill.py".to_owned(), filled(BODY)), (super::body::TEST.to_owned(), filled(TRIAL))]
}
