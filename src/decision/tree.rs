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

/// One thing that can be done, or one reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub name: String,
    pub description: String,
}
