//! DNS policies at the global request bind point (spec/netscaler.md 2.2 to 2.4).

use super::{client::Client, reason::Trace};
use crate::model::{
    ActionId, DnsActionKind, DnsPolicy, Location, Model, PolicyId, Rule,
    location::{QUALIFIERS, WildcardMatchesAny, same_qualifier},
    policy::Goto,
};

/// A policy that matched and brings a list of preferred locations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fired<'m> {
    /// The policy.
    pub policy: PolicyId,
    /// Its action.
    pub action: ActionId,
    /// The list, highest priority first.
    pub preferred: &'m [Location],
}

/// The first policy that matches and has preferred locations, following `goto` (2.4).
pub fn fires<'m>(model: &'m Model, client: &Client<'m>) -> Option<Fired<'m>> {
    evaluate(model, client, &mut Trace::silent())
}

/// As [`fires`], with a step for every policy that was asked.
pub(super) fn evaluate<'m>(model: &'m Model, client: &Client<'m>, trace: &mut Trace) -> Option<Fired<'m>> {
    let policies = &model.policies;
    let mut at = 0;
    while let Some(policy) = policies.get(at) {
        let matched = matches(&policy.rule, client, model.locations.wildcard_matches_any);
        let action = &model.actions[policy.action.index()];
        note(policy, matched, &action.name, client, trace);
        if !matched {
            at += 1;
            continue;
        }
        if let DnsActionKind::PreferredLocations(preferred) = &action.kind {
            // The first list wins (2.4): what `goto` leads to could change nothing.
            return Some(Fired { policy: PolicyId(at as u32), action: policy.action, preferred });
        }
        match next(policies, at) {
            Some(further) => at = further,
            None => break,
        }
    }
    None
}

fn note(policy: &DnsPolicy, matched: bool, action: &str, client: &Client<'_>, trace: &mut Trace) {
    trace.note("policy", || {
        let place = client.location().map_or_else(|| "not located".to_owned(), |l| format!("at {l}"));
        let outcome = if matched { format!("fires {action}") } else { "does not match".to_owned() };
        let subject = format!("{} {outcome}", policy.name);
        (subject, format!("{}, client {} {place}", policy.rule_text, client.address))
    });
}

/// Where evaluation goes on after policy `at` has matched; None: nowhere.
fn next(policies: &[DnsPolicy], at: usize) -> Option<usize> {
    let own = policies[at].priority;
    match policies[at].goto {
        Goto::End => None,
        Goto::Next => Some(at + 1),
        Goto::Priority(n) if n == own => Some(at + 1),
        // A smaller number or one in a gap is undefined (2.4); a number above all ends the bank. Both stop here: an
        // evaluation that goes astray must not reach policies that nobody sent it to.
        Goto::Priority(n) => (n > own).then(|| policies.iter().position(|p| p.priority == n)).flatten(),
    }
}

/// The value of a rule for a client.
pub fn matches(rule: &Rule, client: &Client<'_>, wildcard: WildcardMatchesAny) -> bool {
    match rule {
        Rule::Constant(value) => *value,
        Rule::MatchesLocation(pattern) => matches_location(pattern, client.location(), wildcard),
        Rule::InSubnet(net) => net.contains(&client.address),
        Rule::Equals(address) => *address == client.address,
        Rule::Not(inner) => !matches(inner, client, wildcard),
        Rule::And(a, b) => matches(a, client, wildcard) && matches(b, client, wildcard),
        Rule::Or(a, b) => matches(a, client, wildcard) || matches(b, client, wildcard),
    }
}

/// MATCHES_LOCATION: pattern against the client's location, all wildcards when that is not known (1.2, rule b).
pub fn matches_location(pattern: &Location, client: Option<&Location>, wildcard: WildcardMatchesAny) -> bool {
    (0..QUALIFIERS).all(|i| {
        let known = client.and_then(|location| location.qualifiers[i].as_deref());
        match (pattern.qualifiers[i].as_deref(), known) {
            (None, None) => true,
            (None, Some(_)) => wildcard != WildcardMatchesAny::No,
            (Some(_), None) => wildcard == WildcardMatchesAny::Yes,
            (Some(a), Some(b)) => same_qualifier(a, b),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DnsAction, location::LocationRange};

    fn location(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    #[test]
    fn wildcards_follow_the_table() {
        use WildcardMatchesAny::{Expression, No, Yes};
        // pattern, client, and the result under no, yes, expression (spec/netscaler.md 1.2)
        let table = [
            ("*", "X", false, true, true),
            ("X", "*", false, true, false),
            ("*", "*", true, true, true),
            ("X", "X", true, true, true),
            ("x", "X", true, true, true),
            ("X", "Y", false, false, false),
            ("*.ZMB.*.*", "*.ZMB", true, true, true),
            ("*.ZMB.*.*", "Africa.ZMB", false, true, true),
            ("Africa.ZMB", "*.ZMB", false, true, false),
            ("Africa", "Africa.ZMB", false, true, true),
        ];
        for (pattern, client, no, yes, expression) in table {
            let got = [No, Yes, Expression]
                .map(|w| matches_location(&location(pattern), Some(&location(client)), w));
            assert_eq!(got, [no, yes, expression], "{pattern} against {client}");
        }
        let unknown = [No, Yes, Expression].map(|w| matches_location(&location("X"), None, w));
        assert_eq!(unknown, [false, true, false], "a client that is not located is all wildcards");
    }

    /// Policies with priorities 10, 20, 30 that all match; the third alone has preferred locations.
    fn fired_after(first: Goto, second: Goto) -> Option<PolicyId> {
        let policy = |name: &str, priority, goto, action| DnsPolicy {
            name: name.to_owned(),
            rule: Rule::Constant(true),
            rule_text: "true".to_owned(),
            action: ActionId(action),
            priority,
            goto,
        };
        let inert = DnsActionKind::Inert { key: "view".to_owned() };
        let list = DnsActionKind::PreferredLocations(vec![location("Asia")]);
        let model = Model {
            actions: vec![
                DnsAction { name: "view".to_owned(), kind: inert },
                DnsAction { name: "list".to_owned(), kind: list },
            ],
            policies: vec![
                policy("a", 10, first, 0),
                policy("b", 20, second, 0),
                policy("c", 30, Goto::End, 1),
            ],
            ..Model::default()
        };
        fires(&model, &Client::locate(&model, [192, 0, 2, 1].into())).map(|f| f.policy)
    }

    #[test]
    fn goto_leads_on_jumps_or_ends() {
        use Goto::{End, Next, Priority};
        let third = Some(PolicyId(2));
        for (first, second, expected) in [
            (End, Next, None),
            (Next, End, None),
            (Next, Next, third),
            (Priority(30), End, third),
            (Priority(20), End, None),
            (Priority(10), Next, third),
            (Priority(99), Next, None),
            (Priority(5), Next, None),
            (Priority(25), Next, None),
        ] {
            assert_eq!(fired_after(first, second), expected, "{first:?} then {second:?}");
        }
    }

    #[test]
    fn rules_combine() {
        let place = LocationRange {
            first: [10, 0, 0, 0].into(),
            last: [10, 0, 0, 255].into(),
            location: location("Asia.HK"),
            coordinates: None,
        };
        let client = Client { address: [10, 0, 0, 7].into(), place: Some(&place) };
        let value = |rule: &Rule| matches(rule, &client, WildcardMatchesAny::No);
        let subnet = Rule::InSubnet("10.0.0.99/24".parse().unwrap());
        let other = Rule::Equals([10, 0, 0, 8].into());
        let hk = Rule::MatchesLocation(location("asia.hk"));
        assert!(value(&subnet), "host bits are masked on both sides");
        assert!(!value(&other));
        assert!(value(&hk));
        assert!(value(&Rule::And(Box::new(hk.clone()), Box::new(Rule::Not(Box::new(other.clone()))))));
        assert!(value(&Rule::Or(Box::new(other), Box::new(subnet))));
        assert!(!value(&Rule::InSubnet("::/0".parse().unwrap())), "another family never matches");
    }
}
