use super::{error::EmbeddedError, token::Vocabulary};

/// The one token of each word; behind a prompt a word of several is no slot.
pub(super) fn slots(answers: &[&str], words: &Vocabulary) -> Result<Vec<u32>, EmbeddedError> {
    let mut slots = Vec::new();
    for answer in answers {
        let mut tokens = Vec::new();
        words.encode(answer, &mut tokens)?;
        match tokens[..] {
            [token] if words.bytes(token) == answer.as_bytes() && !slots.contains(&token) => slots.push(token),
            _ => return Err(EmbeddedError::NoSlot { answer: (*answer).to_owned() }),
        }
    }
    Ok(slots)
}

/// Reads the logits of some tokens off those of all, and the share of probability that they hold together.
pub(super) fn weigh(all: &[f32], slots: &[u32]) -> (Vec<f64>, f64) {
    let of = |slot: &u32| {
        usize::try_from(*slot).ok().and_then(|slot| all.get(slot)).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit))
    };
    let logits: Vec<f64> = slots.iter().map(of).collect();
    let mass = (log_sum(logits.iter().copied()) - log_sum(all.iter().map(|logit| f64::from(*logit)))).exp();
    (logits, mass)
}

/// The logarithm of the sum of exponentials, without overflow.
fn log_sum(logits: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    if most.is_finite() { logits.map(|logit| (logit - most).exp()).sum::<f64>().ln() + most } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mass_is_what_the_words_hold_of_all_probability() {
        let all = [1.0, 2.0, 3.0, 700.0];
        assert!(weigh(&all, &[0, 1]).1 < 1e-200, "the model wants to say something else");
        let (logits, mass) = weigh(&[5.0; 8], &[1, 2]);
        assert!((mass - 0.25).abs() < 1e-12 && logits == [5.0, 5.0]);
        assert!((weigh(&all, &[3]).1 - 1.0).abs() < 1e-12);
    }
}
