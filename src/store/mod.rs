//! Where lives are kept: the home, its locks, and for each being a journal with its newest picture.

mod access;
mod error;
mod folder;
mod home;
mod journal;
mod life;
mod line;
mod lock;
mod observe;
mod picture;
mod replay;
mod scan;

pub use access::AccessError;
pub use error::StoreError;
pub use home::{Home, HomeError};
pub use life::{Boot, Life, Recovered};
pub use line::Flaw;
pub use lock::{Lock, LockError};
pub use observe::{Line, Lines, Start, peek, read_journal};
pub use replay::OpenCall;
