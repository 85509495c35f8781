//! Secrets: read from where an operator keeps them, shown to nobody but the one who sends them.
//!
//! # Expected flow
//! A manifest says where a secret is ([`SecretSource`](crate::manifest::SecretSource)). Whoever needs it reads it for each use, through
//! [`Secrets`] or, without a runtime, [`read`]; so one that was exchanged is taken up at once.
//!
//! # Guarantees
//! - A file is used only when it is a regular file and no link, belongs to the user of this process, can be read by nobody else, holds
//!   text, is not empty and at most 64 KiB long. What is checked is the file that is read, not its name.
//! - A credential is a file of the folder that systemd made for the service and told of in `CREDENTIALS_DIRECTORY`. It may also belong to root
//!   and be open to the service by an access control list, which shows as rights of a group; never to others, and never to write.
//! - A [`Secret`] is in no `Debug` text, and no error holds one.
//! - [`Secrets::hide`] takes every secret that was read here out of a text that someone else wrote: a server may say back what it was
//!   told.
//! - What the program keeps itself, such as tokens that it was given ([`Kept`]), is held to the same checks, in a folder that nobody else
//!   can enter, and is replaced as a whole and durably.
//!
//! # Assumptions
//! Variables are those of the process at its start; they are as open as the process is to its own user.

mod keep;
mod read;

pub use keep::{Kept, Turn};
pub use read::{Environment, Secret, SecretError, Secrets, read, variable};
