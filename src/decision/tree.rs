/// What decisions walk: branches with leaves, and the canned replies beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    pub branches: Vec<Branch>,
    /// One of them answers where no branch fits.
    pub replies: Vec<Leaf>,
}

/// Leaves of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    pub description: String,
    pub leaves: Vec<Leaf>,
}

impl Branch {
    /// What it covers, and in further lines what each of its leaves does: an engine that compares meanings finds a request nearer to
    /// one of these than to words for a whole field.
    pub(super) fn said(&self) -> String {
        let leaves = self.leaves.iter().map(|leaf| leaf.description.as_str());
        std::iter::once(self.description.as_str()).chain(leaves).collect::<Vec<_>>().join("\n")
    }
}

/// One thing that can be done, or one reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub name: String,
    pub description: String,
}
