//! Commands of NetScaler, one at a time as they are typed: each is applied, validated and published before it returns.

use serde_json::{Value, json};

use super::{Engine, change::Changed};
use crate::{
    config::import::{Asked, Kind, Op, Outcome, Remark, Reply, Session, Store, Weight},
    control::{
        Command, Refusal,
        command::{SessionAction, SwitchKind},
        ns::{self, Object, Wanted, Whole},
    },
};

impl Engine {
    /// `ns 'COMMAND'`
    pub(super) fn ns(&mut self, line: &str) -> Result<Value, Refusal> {
        match ns::whole(line) {
            Some(Whole::Save) => return self.save(false).map(|done| ns::done(None, &done.warnings)),
            Some(Whole::Running { of_gslb }) => return self.running(of_gslb),
            None => {}
        }
        // What only looks needs no objects.
        let reply = Session::new(&self.config).run(line);
        match (&reply.outcome, &reply.asked) {
            (Outcome::Nothing, _) => Ok(ns::done(None, &[])),
            (Outcome::Show, Some(asked)) => self.look(asked, &said(&reply.remarks)),
            (_, Some(asked)) if let Some((kind, name, enabled)) = switched(asked) => {
                let name = self.spelled(kind, &name)?;
                let done = self.switch(kind, &name, enabled)?;
                Ok(ns::done(None, &[said(&reply.remarks), done.warnings].concat()))
            }
            _ => self.command(line),
        }
    }

    /// What a command switches on or off: an order, which the journal has before it is carried out.
    pub(super) fn ns_order(&self, command: &Command) -> Option<(SwitchKind, String, bool)> {
        let Command::Ns { line } = command else { return None };
        if ns::whole(line).is_some() {
            return None;
        }
        let reply = Session::new(&self.config).run(line);
        if matches!(reply.outcome, Outcome::Nothing | Outcome::Show) {
            return None;
        }
        switched(reply.asked.as_ref()?)
    }

    fn session(&self) -> Result<Session, Refusal> {
        Session::of(&self.plan.text, &self.config).map_err(|error| Refusal::new(error.to_string()))
    }

    fn look(&mut self, asked: &Asked, warnings: &[String]) -> Result<Value, Refusal> {
        let wanted = Wanted::of(asked);
        let session = wanted.needs_objects().then(|| self.session()).transpose()?;
        let none = Store::default();
        let store = session.as_ref().map_or(&none, Session::store);
        let mut answer = self.viewed(|view| ns::look(view, store, &wanted, warnings))?;
        if wanted.object == Object::GslbVserverStat {
            for row in answer["gslbvserver"].as_array_mut().into_iter().flatten() {
                row["curpersistencesessions"] = json!(self.count_sessions(row["name"].as_str()));
            }
        }
        Ok(answer)
    }

    /// How many sessions a virtual server has; None: more than a list holds.
    fn count_sessions(&mut self, name: Option<&str>) -> Option<usize> {
        let vserver = self.plan.compiled.model.vservers.iter().find(|v| Some(v.name.as_str()) == name)?;
        let spills = vserver.spillover.as_ref().is_some_and(|spillover| spillover.persistence);
        if vserver.persistence.is_none() && vserver.backup_session_timeout.is_none() && !spills {
            return Some(0);
        }
        self.sessions(SessionAction::List, name, None).ok()?.as_array().map(Vec::len)
    }

    /// A command that changes something, or is refused.
    fn command(&mut self, line: &str) -> Result<Value, Refusal> {
        let mut session = self.session()?;
        let Reply { outcome, remarks, asked } = session.run(line);
        match outcome {
            Outcome::Error(text) => return Err(Refusal::new(text)),
            // Whoever asks wants an answer.
            Outcome::Notice(text) if is_question(line) => return Err(Refusal::new(text)),
            Outcome::Notice(text) => {
                return Ok(ns::done(None, &[said(&remarks), vec![text]].concat()));
            }
            Outcome::Nothing | Outcome::Show => return Ok(ns::done(None, &said(&remarks))),
            Outcome::Done => {}
        }
        let output = session.output().map_err(|error| Refusal::new(error.to_string()))?;
        let warnings = said(&[remarks, output.remarks].concat());
        let renamed =
            asked.filter(|asked| asked.op == Op::Rename).and_then(|asked| self.renamed(&asked, line));
        if let Some((kind, from, to)) = &renamed {
            self.orders.rename(*kind, from, to);
        }
        let changed = Changed { text: output.toml, files: output.files, warnings };
        let done = self.change(&format!("ns {line}"), |_| Ok(changed));
        if let (Some((kind, from, to)), Err(_)) = (&renamed, &done) {
            self.orders.rename(*kind, to, from);
        }
        // NetScaler says one thing that is wrong; the others follow it.
        let done = done.map_err(|refusal| {
            let mut details = refusal.details.into_iter();
            Refusal { message: details.next().unwrap_or(refusal.message), details: details.collect() }
        })?;
        Ok(ns::done(None, &done.warnings))
    }

    /// The name that an object had, as it is configured, and the one that it gets.
    fn renamed(&self, asked: &Asked, line: &str) -> Option<(SwitchKind, String, String)> {
        let kind = match asked.kind {
            Kind::Vserver => SwitchKind::Vserver,
            Kind::Service => SwitchKind::Service,
            _ => return None,
        };
        let tokens = crate::config::import::lexer::lex(line).ok()?;
        let from = self.spelled(kind, asked.name.as_deref()?).ok()?;
        Some((kind, from, tokens.last()?.text.clone()))
    }

    /// `show ns runningConfig`, `show gslb runningConfig`
    fn running(&self, of_gslb: bool) -> Result<Value, Refusal> {
        let all = self.session()?.export();
        let is_wanted = |line: &&String| !of_gslb || line.split(' ').nth(1) == Some("gslb");
        let text = all.iter().filter(is_wanted).fold(String::new(), |out, line| out + line + "\n");
        Ok(ns::done(Some(("nsrunningconfig", vec![json!({ "response": text })])), &[]))
    }

    /// The name as it is configured: NetScaler's names have no case.
    pub(super) fn spelled(&self, kind: SwitchKind, name: &str) -> Result<String, Refusal> {
        let model = &self.plan.compiled.model;
        let names: Vec<&String> = match kind {
            SwitchKind::Vserver => model.vservers.iter().map(|v| &v.name).collect(),
            SwitchKind::Service => model.services.iter().map(|s| &s.name).collect(),
            SwitchKind::Monitor => model.monitors.iter().map(|m| &m.name).collect(),
        };
        let exact = names.iter().find(|known| known.as_str() == name);
        let found = exact.or_else(|| names.iter().find(|known| known.eq_ignore_ascii_case(name)));
        let argument = if kind == SwitchKind::Service { "serviceName" } else { "name" };
        found.map(|name| (*name).clone()).ok_or_else(|| ns::no_such(argument, name))
    }
}

impl super::Orders {
    /// What was said of an object stays with it.
    fn rename(&mut self, kind: SwitchKind, from: &str, to: &str) {
        fn moved<T>(map: &mut std::collections::HashMap<String, T>, from: &str, to: &str) {
            if let Some(value) = map.remove(from) {
                map.insert(to.to_owned(), value);
            }
        }
        match kind {
            SwitchKind::Vserver => {
                moved(&mut self.vservers, from, to);
                moved(&mut self.memories, from, to);
            }
            SwitchKind::Service => {
                moved(&mut self.services, from, to);
                moved(&mut self.reports, from, to);
                moved(&mut self.loads, from, to);
            }
            SwitchKind::Monitor => {}
        }
    }
}

/// Kind and name of what is switched, and whether it is on from now on.
fn switched(asked: &Asked) -> Option<(SwitchKind, String, bool)> {
    let enabled = match asked.op {
        Op::Enable => true,
        Op::Disable => false,
        _ => return None,
    };
    let kind = match asked.kind {
        Kind::Vserver => SwitchKind::Vserver,
        Kind::Service => SwitchKind::Service,
        _ => return None,
    };
    Some((kind, asked.name.clone()?, enabled))
}

/// `show`, `stat`, also cut short.
fn is_question(line: &str) -> bool {
    let word = line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    word.len() > 1 && ["show", "stat"].iter().any(|verb| verb.starts_with(&word))
}

/// What is said besides, one line each.
fn said(remarks: &[Remark]) -> Vec<String> {
    let word = |remark: &Remark| match remark.weight {
        Weight::Notice => format!("notice: {}", remark.text),
        _ => remark.text.clone(),
    };
    remarks.iter().map(word).collect()
}
