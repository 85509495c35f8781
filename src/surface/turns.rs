use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// Lets so many through at once. Those who wait come one of each guest in turn, and those of one guest in the order in which they came:
/// a guest that floods holds up none but itself.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Mutex<Hall>>);

/// The right to be under way; it ends when it is dropped. `None` has been handed on.
#[derive(Debug)]
pub(super) struct Turn(Option<Turns>);

/// Who waits, guest by guest; nobody does while a turn is free.
#[derive(Debug)]
struct Hall {
    free: usize,
    lines: VecDeque<(u64, Line)>,
}

type Line = VecDeque<oneshot::Sender<Turn>>;

impl Turns {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Hall { free: most, lines: VecDeque::new() })))
    }

    /// Waits for a turn. Cancel safe: who no longer waits is passed over.
    pub(super) async fn take(&self, guest: u64) -> Turn {
        let called = {
            let mut hall = self.lock();
            if hall.free > 0 {
                hall.free -= 1;
                return self.turn();
            }
            hall.line_up(guest)
        };
        // Nobody drops the other end while these turns are there.
        called.await.unwrap_or_else(|_| self.turn())
    }

    fn turn(&self) -> Turn {
        Turn(Some(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Hall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hall {
    fn line_up(&mut self, guest: u64) -> oneshot::Receiver<Turn> {
        let (call, called) = oneshot::channel();
        match self.lines.iter_mut().find(|(whose, _)| *whose == guest) {
            Some((_, line)) => {
                line.retain(|waiting| !waiting.is_closed());
                line.push_back(call);
            }
            None => self.lines.push_back((guest, Line::from([call]))),
        }
        called
    }

    /// Whose turn is next: the guest who waits longest for one goes to the end of the guests.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        loop {
            let (guest, mut line) = self.lines.pop_front()?;
            let next = line.pop_front();
            if !line.is_empty() {
                self.lines.push_back((guest, line));
            }
            if next.is_some() {
                return next;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut hall = turns.lock();
                let next = hall.next();
                if next.is_none() {
                    hall.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(turns.turn()) {
                Ok(()) => return,
                // It no longer waits: the turn is the next one's, and not ended by this.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::BoxFuture};

    use super::*;

    /// Takes a turn for a guest, as far as it goes now.
    fn takes(turns: &Turns, guest: u64) -> BoxFuture<'static, Turn> {
        let turns = turns.clone();
        let mut taking = async move { turns.take(guest).await }.boxed();
        match (&mut taking).now_or_never() {
            Some(turn) => std::future::ready(turn).boxed(),
            None => taking,
        }
    }

    /// Ends one turn after the other, and tells in which order those who waited got theirs.
    fn order(first: Turn, waiting: Vec<(&'static str, BoxFuture<'static, Turn>)>) -> Vec<&'static str> {
        let (mut waiting, mut order, mut now) = (waiting, Vec::new(), first);
        while !waiting.is_empty() {
            drop(now);
            let mut came = None;
            waiting.retain_mut(|(name, taking)| match taking.now_or_never() {
                Some(turn) => {
                    assert!(came.replace((*name, turn)).is_none(), "two have the one turn");
                    false
                }
                None => true,
            });
            let (name, turn) = came.unwrap();
            order.push(name);
            now = turn;
        }
        order
    }

    #[test]
    fn a_guest_that_floods_holds_up_none_but_itself() {
        let turns = Turns::new(1);
        let first = takes(&turns, 1).now_or_never().unwrap();
        let names = [("a1", 1), ("a2", 1), ("a3", 1), ("b1", 2), ("b2", 2), ("c1", 3)];
        let waiting = names.map(|(name, guest)| (name, takes(&turns, guest)));
        assert_eq!(order(first, waiting.into()), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(takes(&turns, 4).now_or_never().is_some(), "the turn is free again");
    }

    #[test]
    fn no_turn_is_lost_on_those_who_no_longer_wait() {
        let turns = Turns::new(2);
        let (first, second) = (takes(&turns, 1).now_or_never().unwrap(), takes(&turns, 1).now_or_never().unwrap());
        drop([takes(&turns, 1), takes(&turns, 2), takes(&turns, 2)]);
        let called = takes(&turns, 3);
        drop(first);
        let late = takes(&turns, 4);
        // It was called already, and nobody asks it any more.
        drop(called);
        drop(second);
        let both = [late.now_or_never(), takes(&turns, 5).now_or_never()];
        assert!(both.iter().all(Option::is_some), "{both:?}");
        assert!(takes(&turns, 6).now_or_never().is_none(), "and none was made up");
    }
}
