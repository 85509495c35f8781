use serde::{Deserialize, Serialize};

/// Who a being is. Fixed at birth; on resume every declared field must equal the stored one (SPEC §3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub agent_id: String,
    pub name: String,
    pub ticker: String,
    pub agent_type: String,
    pub specialty: String,
    pub role: String,
    pub environment: String,
    pub host: String,
    pub workload_id: String,
    pub workload_public_key: String,
    pub executable_digest: String,
    pub code_digest: String,
    pub policy_digest: String,
    pub policy_sequence: u64,
}

/// The part of an identity that an operator declared; what is `None` is pinned at birth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredIdentity {
    pub agent_id: Option<String>,
    pub name: Option<String>,
    pub ticker: Option<String>,
    pub agent_type: Option<String>,
    pub specialty: Option<String>,
    pub role: Option<String>,
    pub environment: Option<String>,
    pub host: Option<String>,
    pub workload_id: Option<String>,
    pub workload_public_key: Option<String>,
    pub executable_digest: Option<String>,
    pub code_digest: Option<String>,
    pub policy_digest: Option<String>,
    pub policy_sequence: Option<u64>,
}

/// A declared identity that breaks a rule of SPEC §3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadIdentity {
    #[error("{0} is not a valid immutable identifier")]
    NotAnIdentifier(&'static str),
    #[error("{0} must be 64 lowercase hexadecimal characters")]
    NotHex(&'static str),
}

impl DeclaredIdentity {
    /// Finds every declared field that breaks its rule.
    pub fn problems(&self) -> Vec<BadIdentity> {
        let identifiers = [
            ("agent id", &self.agent_id),
            ("role", &self.role),
            ("environment", &self.environment),
            ("host", &self.host),
            ("workload id", &self.workload_id),
        ];
        let digests = [
            ("workload public key", &self.workload_public_key),
            ("executable digest", &self.executable_digest),
            ("code digest", &self.code_digest),
            ("policy digest", &self.policy_digest),
        ];
        let bad =
            |rule: fn(&str) -> bool| move |(_, value): &(_, &Option<String>)| value.as_deref().is_some_and(|text| !rule(text));
        let names = identifiers.into_iter().filter(bad(is_identifier)).map(|(label, _)| BadIdentity::NotAnIdentifier(label));
        let hexes = digests.into_iter().filter(bad(is_hex_digest)).map(|(label, _)| BadIdentity::NotHex(label));
        names.chain(hexes).collect()
    }

    /// Fills what is not declared from `pinned`.
    pub fn pin(&self, pinned: Identity) -> Identity {
        let text = |declared: &Option<String>, pinned: String| declared.clone().unwrap_or(pinned);
        Identity {
            agent_id: text(&self.agent_id, pinned.agent_id),
            name: text(&self.name, pinned.name),
            ticker: text(&self.ticker, pinned.ticker),
            agent_type: text(&self.agent_type, pinned.agent_type),
            specialty: text(&self.specialty, pinned.specialty),
            role: text(&self.role, pinned.role),
            environment: text(&self.environment, pinned.environment),
            host: text(&self.host, pinned.host),
            workload_id: text(&self.workload_id, pinned.workload_id),
            workload_public_key: text(&self.workload_public_key, pinned.workload_public_key),
            executable_digest: text(&self.executable_digest, pinned.executable_digest),
            code_digest: text(&self.code_digest, pinned.code_digest),
            policy_digest: text(&self.policy_digest, pinned.policy_digest),
            policy_sequence: self.policy_sequence.unwrap_or(pinned.policy_sequence),
        }
    }

    /// Tells whether every declared field equals the stored one.
    pub fn matches(&self, stored: &Identity) -> bool {
        self.pin(stored.clone()) == *stored
    }
}

/// 1–128 bytes of ASCII alphanumerics and `- _ . :`.
fn is_identifier(text: &str) -> bool {
    (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
}

fn is_hex_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_field_is_told_in_the_words_of_the_spec() {
        let declared = DeclaredIdentity {
            role: Some("a/b".into()),
            host: Some(String::new()),
            code_digest: Some("A".repeat(64)),
            agent_id: Some("fine:id.1".into()),
            ..Default::default()
        };
        let told: Vec<String> = declared.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "role is not a valid immutable identifier",
                "host is not a valid immutable identifier",
                "code digest must be 64 lowercase hexadecimal characters"
            ]
        );
    }
}
