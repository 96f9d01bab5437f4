//! DNS policies at every bind point (spec/netscaler.md 2.2 to 2.4).

use std::net::IpAddr;

use super::{
    client::Client,
    reason::{Hit, Trace},
};
use crate::model::{
    DnsActionKind, DnsName, DnsPolicy, LabelId, Location, Model, PolicyId, Rule, ViewId, VserverId,
    location::{QUALIFIERS, WildcardMatchesAny, same_qualifier},
    policy::{BindPoint, Goto, NameTest},
};

/// Labels that invoke labels: no deeper than this. What lies below is undefined and does not match.
const MAX_DEPTH: u32 = 16;

/// All that rules look at besides the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who asks.
    pub client: &'a Client<'a>,
    /// The virtual server that the name is bound to: its policies are asked as well.
    pub vserver: VserverId,
    /// Which name tests of the model the name passes; see [`name_bits`].
    pub names: &'a [u64],
    /// The type that is asked for, whether or not a virtual server answers it.
    pub qtype: u16,
}

/// What the policies that matched bring together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fired<'m> {
    /// No reply at all.
    pub drop: Option<Hit>,
    /// Addresses that replace the answer, and their TTL.
    pub rewrite: Option<(Hit, &'m [IpAddr], u32)>,
    /// Preferred locations, highest priority first.
    pub preferred: Option<(Hit, &'m [Location])>,
    /// Services answer with their addresses in this view.
    pub view: Option<(Hit, ViewId)>,
}

impl Fired<'_> {
    /// The policy that changes the answer most.
    pub fn hit(&self) -> Option<Hit> {
        let rewrite = self.rewrite.map(|(hit, ..)| hit);
        let preferred = self.preferred.map(|(hit, _)| hit);
        self.drop.or(rewrite).or(preferred).or(self.view.map(|(hit, _)| hit))
    }
}

/// Which of the model's name tests a name passes, one bit each. A name that is never tested has none.
pub fn name_bits(tests: &[NameTest], name: &DnsName) -> Vec<u64> {
    let mut bits = vec![0; tests.len().div_ceil(64)];
    for (i, test) in tests.iter().enumerate() {
        bits[i / 64] |= u64::from(test.passes(name)) << (i % 64);
    }
    bits
}

/// What the policies at the request bind points bring: of each kind of action the first one that fires.
pub fn fires<'m>(model: &'m Model, asked: &Asked<'_>) -> Fired<'m> {
    requests(model, asked, &mut Trace::silent())
}

/// As [`fires`], for the bind points of responses with this code.
pub fn fires_on_response<'m>(model: &'m Model, asked: &Asked<'_>, code: u16) -> Fired<'m> {
    responses(model, asked, code, &mut Trace::silent())
}

/// As [`fires`], with a step for every policy that was asked.
pub(super) fn requests<'m>(model: &'m Model, asked: &Asked<'_>, trace: &mut Trace) -> Fired<'m> {
    let points = [BindPoint::RequestOverride, BindPoint::Vserver(asked.vserver), BindPoint::Request];
    Evaluation { model, asked, code: None, fired: Fired::default(), trace }.run(&points)
}

/// Likewise for responses.
pub(super) fn responses<'m>(model: &'m Model, asked: &Asked<'_>, code: u16, trace: &mut Trace) -> Fired<'m> {
    let points =
        [BindPoint::ResponseOverride, BindPoint::VserverResponse(asked.vserver), BindPoint::Response];
    Evaluation { model, asked, code: Some(code), fired: Fired::default(), trace }.run(&points)
}

/// The policies bound at a point, by priority, with the index of the first.
pub fn bank(model: &Model, point: BindPoint) -> (usize, &[DnsPolicy]) {
    let first = model.policies.partition_point(|p| p.bind < point);
    let len = model.policies[first..].partition_point(|p| p.bind == point);
    (first, &model.policies[first..first + len])
}

/// How a bank was left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Past its last policy: the next bank follows.
    AtItsEnd,
    /// END: nothing follows.
    Ended,
}

struct Evaluation<'m, 'a> {
    model: &'m Model,
    asked: &'a Asked<'a>,
    /// The response code, for responses.
    code: Option<u16>,
    fired: Fired<'m>,
    trace: &'a mut Trace,
}

impl<'m> Evaluation<'m, '_> {
    fn run(mut self, points: &[BindPoint]) -> Fired<'m> {
        for point in points {
            if self.bank(*point, 0) == Left::Ended {
                break;
            }
        }
        self.fired
    }

    fn bank(&mut self, point: BindPoint, depth: u32) -> Left {
        let (first, policies) = bank(self.model, point);
        let mut at = 0;
        while let Some(policy) = policies.get(at) {
            let value = value(&policy.rule, self.asked, self.code, self.model.locations.wildcard_matches_any);
            self.note(policy, value);
            if value != Some(true) {
                at += 1;
                continue;
            }
            self.fire(PolicyId((first + at) as u32), policy);
            if self.fired.drop.is_some() {
                return Left::Ended;
            }
            let invoked = policy.invoke.map(|label| self.invoke(label, depth));
            if self.fired.drop.is_some() {
                return Left::Ended;
            }
            match next(policies, at, invoked == Some(Left::Ended)) {
                Next::Policy(further) => at = further,
                Next::Bank => return Left::AtItsEnd,
                Next::Nothing => return Left::Ended,
            }
        }
        Left::AtItsEnd
    }

    fn invoke(&mut self, label: LabelId, depth: u32) -> Left {
        let name = &self.model.labels[label.index()];
        if depth >= MAX_DEPTH {
            self.trace.note("policy", || {
                (format!("label {name} is not entered"), "labels invoke each other".to_owned())
            });
            return Left::AtItsEnd;
        }
        self.trace.note("policy", || (format!("label {name}"), "invoked".to_owned()));
        self.bank(BindPoint::Label(label), depth + 1)
    }

    /// Of each kind the first action counts (2.4).
    fn fire(&mut self, id: PolicyId, policy: &DnsPolicy) {
        let hit = Hit { policy: id, action: policy.action };
        match &self.model.actions[policy.action.index()].kind {
            DnsActionKind::Drop => self.fired.drop = Some(hit),
            DnsActionKind::Rewrite { addresses, ttl } => {
                self.fired.rewrite.get_or_insert((hit, addresses, *ttl));
            }
            DnsActionKind::PreferredLocations(list) => {
                self.fired.preferred.get_or_insert((hit, list));
            }
            DnsActionKind::View(view) => {
                self.fired.view.get_or_insert((hit, *view));
            }
            DnsActionKind::CacheBypass | DnsActionKind::Noop => {}
        }
    }

    fn note(&mut self, policy: &DnsPolicy, value: Option<bool>) {
        let (action, client) = (&self.model.actions[policy.action.index()].name, self.asked.client);
        self.trace.note("policy", || {
            let place = client.location().map_or_else(|| "not located".to_owned(), |l| format!("at {l}"));
            let outcome = match value {
                Some(true) => format!("fires {action}"),
                Some(false) => "does not match".to_owned(),
                None => "is undefined, which counts as no match".to_owned(),
            };
            let subject = format!("{} {outcome}", policy.name);
            (subject, format!("{}, client {} {place}", policy.rule_text, client.address))
        });
    }
}

/// What follows a match.
enum Next {
    Policy(usize),
    Bank,
    Nothing,
}

/// Where evaluation goes on after policy `at` has matched.
fn next(policies: &[DnsPolicy], at: usize, label_ended: bool) -> Next {
    let own = policies[at].priority;
    match policies[at].goto {
        Goto::End => Next::Nothing,
        Goto::UseInvocationResult if label_ended => Next::Nothing,
        Goto::Next | Goto::UseInvocationResult => Next::Policy(at + 1),
        Goto::Priority(n) if n == own => Next::Policy(at + 1),
        Goto::Priority(n) if policies.last().is_some_and(|last| n > last.priority) => Next::Bank,
        // A smaller number or one in a gap is undefined (2.4): an evaluation that goes astray must not reach policies
        // that nobody sent it to.
        Goto::Priority(n) => policies[at..]
            .iter()
            .position(|p| p.priority == n)
            .map_or(Next::Nothing, |further| Next::Policy(at + further)),
    }
}

/// The value of a rule; None: undefined, because it looks at a response where there is none.
pub fn value(
    rule: &Rule,
    asked: &Asked<'_>,
    code: Option<u16>,
    wildcard: WildcardMatchesAny,
) -> Option<bool> {
    let part = |rule: &Rule| value(rule, asked, code, wildcard);
    let in_response =
        |is_of_response: bool, value: bool| (code.is_some() || !is_of_response).then_some(value);
    match rule {
        Rule::Constant(value) => Some(*value),
        Rule::MatchesLocation(pattern) => Some(matches_location(pattern, asked.client.location(), wildcard)),
        Rule::InSubnet(net) => Some(net.contains(&asked.client.address)),
        Rule::Equals(address) => Some(*address == asked.client.address),
        // Validation has made constants of them all.
        Rule::Destination(_) => None,
        Rule::Name { id, of_response, .. } => {
            let bits = asked.names.get(*id as usize / 64).copied().unwrap_or(0);
            in_response(*of_response, bits >> (id % 64) & 1 == 1)
        }
        Rule::Type { code, of_response } => in_response(*of_response, *code == asked.qtype),
        Rule::ResponseCode(wanted) => code.map(|code| code == *wanted),
        Rule::Not(inner) => part(inner).map(|value| !value),
        Rule::And(a, b) => match (part(a), part(b)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (a, b) => a.zip(b).map(|_| true),
        },
        Rule::Or(a, b) => match (part(a), part(b)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (a, b) => a.zip(b).map(|_| false),
        },
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
    use crate::model::{ActionId, DnsAction, location::Place, policy::TextOp};

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

    fn policy(name: &str, bind: BindPoint, priority: u32, goto: Goto, action: u32) -> DnsPolicy {
        DnsPolicy {
            name: name.to_owned(),
            rule: Rule::Constant(true),
            rule_text: "true".to_owned(),
            action: ActionId(action),
            bind,
            priority,
            goto,
            invoke: None,
        }
    }

    /// Actions: nothing, a list, a view, drop.
    fn model(mut policies: Vec<DnsPolicy>) -> Model {
        let action = |name: &str, kind| DnsAction { name: name.to_owned(), kind };
        policies.sort_by_key(|p| (p.bind, p.priority));
        Model {
            actions: vec![
                action("nothing", DnsActionKind::Noop),
                action("list", DnsActionKind::PreferredLocations(vec![location("Asia")])),
                action("view", DnsActionKind::View(ViewId(0))),
                action("drop", DnsActionKind::Drop),
            ],
            views: vec!["inside".to_owned()],
            labels: vec!["label".to_owned(), "other".to_owned()],
            policies,
            ..Model::default()
        }
    }

    fn fired(model: &Model) -> Fired<'_> {
        let client = Client::locate(model, [192, 0, 2, 1].into());
        fires(model, &Asked { client: &client, vserver: VserverId(0), names: &[], qtype: 1 })
    }

    fn name_of(model: &Model, hit: Option<Hit>) -> Option<&str> {
        hit.map(|hit| model.policies[hit.policy.index()].name.as_str())
    }

    #[test]
    fn goto_leads_on_jumps_or_ends() {
        use Goto::{End, Next, Priority, UseInvocationResult};
        for (first, second, expected) in [
            (End, Next, None),
            (Next, End, None),
            (Next, Next, Some("c")),
            (UseInvocationResult, Next, Some("c")),
            (Priority(30), End, Some("c")),
            (Priority(20), End, None),
            (Priority(10), Next, Some("c")),
            (Priority(99), Next, None),
            (Priority(5), Next, None),
            (Priority(25), Next, None),
        ] {
            let at = BindPoint::Request;
            let model = model(vec![
                policy("a", at, 10, first, 0),
                policy("b", at, 20, second, 0),
                policy("c", at, 30, End, 1),
            ]);
            let got = fired(&model).preferred.map(|(hit, _)| hit);
            assert_eq!(name_of(&model, got), expected, "{first:?} then {second:?}");
        }
    }

    #[test]
    fn bind_points_follow_each_other_until_an_end() {
        use BindPoint::{Request, RequestOverride, Vserver};
        // goto of the override policy, of the virtual server's; the lists that are reached in the end
        for (first, second, list) in [
            (Goto::End, Goto::End, None),
            (Goto::Next, Goto::End, None),
            (Goto::Next, Goto::Next, Some("default")),
            (Goto::Priority(99), Goto::Priority(99), Some("default")),
            (Goto::Priority(5), Goto::Next, None),
        ] {
            let model = model(vec![
                policy("override", RequestOverride, 10, first, 2),
                policy("own", Vserver(VserverId(0)), 10, second, 0),
                policy("foreign", Vserver(VserverId(1)), 10, Goto::End, 3),
                policy("default", Request, 10, Goto::End, 1),
            ]);
            let got = fired(&model);
            assert_eq!(name_of(&model, got.view.map(|v| v.0)), Some("override"));
            assert_eq!(name_of(&model, got.preferred.map(|p| p.0)), list, "{first} then {second}");
            assert_eq!(got.drop, None, "policies of other virtual servers are not asked");
        }
    }

    #[test]
    fn labels_end_all_only_if_their_result_is_used() {
        for (goto, inner, list) in [
            (Goto::Next, Goto::End, Some("after")),
            (Goto::UseInvocationResult, Goto::End, None),
            (Goto::UseInvocationResult, Goto::Next, Some("after")),
            (Goto::End, Goto::Next, None),
        ] {
            let mut calls = policy("calls", BindPoint::Request, 10, goto, 0);
            calls.invoke = Some(LabelId(0));
            let model = model(vec![
                calls,
                policy("after", BindPoint::Request, 20, Goto::End, 1),
                policy("inner", BindPoint::Label(LabelId(0)), 5, inner, 2),
                policy("unused", BindPoint::Label(LabelId(1)), 5, Goto::End, 3),
            ]);
            let got = fired(&model);
            assert_eq!(name_of(&model, got.view.map(|v| v.0)), Some("inner"));
            assert_eq!(name_of(&model, got.preferred.map(|p| p.0)), list, "{goto}, {inner}");
        }
    }

    #[test]
    fn labels_that_invoke_each_other_come_to_an_end() {
        let at = |label: u32, to: u32| {
            let mut policy = policy("round", BindPoint::Label(LabelId(label)), 1, Goto::Next, 0);
            policy.invoke = Some(LabelId(to));
            policy
        };
        let mut calls = policy("calls", BindPoint::Request, 10, Goto::Next, 0);
        calls.invoke = Some(LabelId(0));
        let model =
            model(vec![calls, at(0, 1), at(1, 0), policy("end", BindPoint::Request, 20, Goto::End, 1)]);
        assert!(fired(&model).preferred.is_some());
    }

    #[test]
    fn drop_wins_at_once_and_first_of_each_kind_counts() {
        let at = BindPoint::Request;
        let all = |third: u32| {
            model(vec![
                policy("list", at, 10, Goto::Next, 1),
                policy("view", at, 20, Goto::Next, 2),
                policy("third", at, 30, Goto::Next, third),
                policy("late", at, 40, Goto::Next, 1),
            ])
        };
        let dropped = all(3);
        assert_eq!(name_of(&dropped, fired(&dropped).hit()), Some("third"));
        let listed = all(1);
        let got = fired(&listed);
        assert_eq!(name_of(&listed, got.hit()), Some("list"));
        assert_eq!(
            name_of(&listed, got.view.map(|v| v.0)),
            Some("view"),
            "lists and views do not exclude each other"
        );
    }

    #[test]
    fn rules_combine() {
        let place = location("Asia.HK");
        let place = Some(Place { location: &place, coordinates: None });
        let client = Client { address: [10, 0, 0, 7].into(), place };
        let asked = |qtype, bits: &'static [u64]| Asked {
            client: &client,
            vserver: VserverId(0),
            names: bits,
            qtype,
        };
        let full = |rule: &Rule, code| value(rule, &asked(1, &[0b10]), code, WildcardMatchesAny::No);
        let plain = |rule: &Rule| full(rule, None);
        let subnet = Rule::InSubnet("10.0.0.99/24".parse().unwrap());
        let other = Rule::Equals([10, 0, 0, 8].into());
        let hk = Rule::MatchesLocation(location("asia.hk"));
        assert_eq!(plain(&subnet), Some(true), "host bits are masked on both sides");
        assert_eq!(plain(&other), Some(false));
        let not = |rule: &Rule| Rule::Not(Box::new(rule.clone()));
        let and = |a: &Rule, b: &Rule| Rule::And(Box::new(a.clone()), Box::new(b.clone()));
        let or = |a: &Rule, b: &Rule| Rule::Or(Box::new(a.clone()), Box::new(b.clone()));
        assert_eq!(plain(&and(&hk, &not(&other))), Some(true));
        assert_eq!(plain(&or(&other, &subnet)), Some(true));
        assert_eq!(
            plain(&Rule::InSubnet("::/0".parse().unwrap())),
            Some(false),
            "another family never matches"
        );
        let name = |id, of_response| Rule::Name { test: NameTest::new(TextOp::Equals, "x"), id, of_response };
        assert_eq!(
            [plain(&name(0, false)), plain(&name(1, false)), plain(&name(64, false))],
            [Some(false), Some(true), Some(false)]
        );
        let code = Rule::ResponseCode(0);
        assert_eq!(
            [full(&code, None), full(&code, Some(0)), full(&code, Some(3))],
            [None, Some(true), Some(false)]
        );
        assert_eq!([plain(&name(1, true)), full(&name(1, true), Some(0))], [None, Some(true)]);
        assert_eq!(
            [plain(&not(&code)), plain(&and(&code, &other)), plain(&or(&code, &hk))],
            [None, Some(false), Some(true)]
        );
        assert_eq!([plain(&and(&code, &hk)), plain(&or(&code, &other))], [None, None]);
        let aaaa = Rule::Type { code: 28, of_response: false };
        assert_eq!(value(&aaaa, &asked(28, &[]), None, WildcardMatchesAny::No), Some(true));
    }

    #[test]
    fn names_are_compared_without_case_and_trailing_dot() {
        let name = DnsName::parse("www.Example.com.").unwrap();
        for (op, text, passes) in [
            (TextOp::Equals, "WWW.example.com.", true),
            (TextOp::Equals, "example.com", false),
            (TextOp::Contains, "EXAMPLE", true),
            (TextOp::StartsWith, "www.", true),
            (TextOp::StartsWith, "ww.", false),
            (TextOp::EndsWith, "example.com.", true),
            (TextOp::EndsWith, "net", false),
        ] {
            assert_eq!(NameTest::new(op, text).passes(&name), passes, "{op:?} {text}");
        }
    }
}
