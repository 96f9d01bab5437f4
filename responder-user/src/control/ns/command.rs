//! From a command of NetScaler that looks to what is wanted. Commands are read by [`crate::config::import`]; here is what
//! it leaves to the daemon.

use crate::config::import::{Asked, Kind, Op, lexer};

/// What `show` and `stat` are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// `show gslb vserver`
    GslbVserver,
    /// `stat gslb vserver`
    GslbVserverStat,
    /// `show gslb service`
    GslbService,
    /// `stat gslb service`
    GslbServiceStat,
    /// `show gslb domain`
    GslbDomain,
    /// `stat gslb domain`
    GslbDomainStat,
    /// `show gslb site`, `stat gslb site`
    GslbSite,
    /// `show location`
    Location,
    /// `show locationParameter`
    LocationParameter,
    /// `show locationFile`
    LocationFile,
    /// `show dns policy`
    DnsPolicy,
    /// `show dns action`
    DnsAction,
    /// `show dns global`
    DnsGlobal,
    /// `show dns view`
    DnsView,
    /// `show lb vserver`
    LbVserver,
    /// What has a configuration and no state.
    Plain(Kind),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// About what.
    pub object: Object,
    /// Its name; None: all.
    pub name: Option<String>,
}

impl Wanted {
    /// What a command asks for.
    pub fn of(asked: &Asked) -> Self {
        let is_stat = asked.op == Op::Stat;
        let object = match asked.kind {
            Kind::Vserver if is_stat => Object::GslbVserverStat,
            Kind::Vserver => Object::GslbVserver,
            Kind::Service if is_stat => Object::GslbServiceStat,
            Kind::Service => Object::GslbService,
            Kind::GslbDomain if is_stat => Object::GslbDomainStat,
            Kind::GslbDomain => Object::GslbDomain,
            Kind::Site => Object::GslbSite,
            Kind::Location => Object::Location,
            Kind::LocationParameter => Object::LocationParameter,
            Kind::LocationFile | Kind::LocationFile6 => Object::LocationFile,
            Kind::DnsPolicy => Object::DnsPolicy,
            Kind::DnsAction => Object::DnsAction,
            Kind::DnsGlobal => Object::DnsGlobal,
            Kind::DnsView => Object::DnsView,
            Kind::LbVserver => Object::LbVserver,
            kind => Object::Plain(kind),
        };
        // `show location 10.0.0.0 10.0.0.255`: the range is known by where it begins.
        let first = |name: &String| name.split(' ').next().unwrap_or_default().to_owned();
        let name = match object {
            Object::Location => asked.name.as_ref().map(first),
            _ => asked.name.clone(),
        };
        Self { object, name }
    }

    /// True if the objects of the configuration say more than the model.
    pub fn needs_objects(&self) -> bool {
        matches!(self.object, Object::GslbSite | Object::DnsPolicy | Object::LbVserver | Object::Plain(_))
    }
}

/// A command about the configuration as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// `save ns config`
    Save,
    /// `show ns runningConfig`, or what of it has to do with GSLB alone.
    Running {
        /// `show gslb runningConfig`
        of_gslb: bool,
    },
}

/// True for one of them.
pub fn whole(line: &str) -> Option<Whole> {
    let tokens = lexer::lex(line).ok()?;
    let words: Vec<String> = tokens.iter().map(|token| token.text.to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["save" | "sav", "config"] | ["save" | "sav", "ns", "config"] => Some(Whole::Save),
        ["show" | "sho" | "sh", "runningconfig"] | ["show" | "sho" | "sh", "ns", "runningconfig"] => {
            Some(Whole::Running { of_gslb: false })
        }
        ["show" | "sho" | "sh", "gslb", "runningconfig"] => Some(Whole::Running { of_gslb: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::import::{Outcome, Session};

    fn look(line: &str) -> (Object, Option<String>) {
        let reply = Session::new(Path::new("responder.toml")).run(line);
        assert_eq!(reply.outcome, Outcome::Show, "{line}");
        let Wanted { object, name } = Wanted::of(&reply.asked.unwrap());
        (object, name)
    }

    #[test]
    fn words_may_be_short_as_long_as_they_mean_one_command() {
        let named = |object, name: &str| (object, Some(name.to_owned()));
        assert_eq!(look("show gslb vserver www"), named(Object::GslbVserver, "www"));
        assert_eq!(look("-  show gslb vserver www"), named(Object::GslbVserver, "www"));
        assert_eq!(look("SH GSLB vs www # comment"), named(Object::GslbVserver, "www"));
        assert_eq!(look("sh locationparameter"), (Object::LocationParameter, None));
        assert_eq!(look("show location"), (Object::Location, None));
        assert_eq!(look("show location 10.0.0.0"), named(Object::Location, "10.0.0.0"));
        assert_eq!(look("show location 10.0.0.0 10.0.0.255"), named(Object::Location, "10.0.0.0"));
        assert_eq!(look("stat gslb vserver \"a b\" -detail"), named(Object::GslbVserverStat, "a b"));
        assert_eq!(look("stat gslb service"), (Object::GslbServiceStat, None));
        assert_eq!(look("show dns global"), (Object::DnsGlobal, None));
        assert_eq!(look("show lb monitor web"), named(Object::Plain(Kind::Monitor), "web"));
    }

    #[test]
    fn commands_about_the_whole_are_told_apart() {
        assert_eq!(whole("save ns config"), Some(Whole::Save));
        assert_eq!(whole("sh ns runningConfig"), Some(Whole::Running { of_gslb: false }));
        assert_eq!(whole("show gslb runningConfig"), Some(Whole::Running { of_gslb: true }));
        assert_eq!(whole("show gslb vserver"), None);
        assert_eq!(whole("save \"ns"), None);
    }
}
