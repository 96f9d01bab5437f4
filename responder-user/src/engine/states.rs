//! Virtual servers that go up and down: one `state` event for each change.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, json};

use super::Engine;
use crate::{
    control::{EventKind, show::vserver},
    model::VserverId,
};

/// Words for the states of virtual servers, by name: a reload gives them other numbers.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<String, (&'static str, &'static str)>);

impl Engine {
    /// Says which of these virtual servers changed their primary or their effective state. What is seen for the first time
    /// is no change.
    pub(super) fn tell_states(&mut self, stirred: &BTreeSet<VserverId>) {
        let model = self.plan.compiled.model.clone();
        for id in stirred {
            let found = vserver::states_of(&model, &self.snapshot, *id);
            let now = (found.primary, found.effective);
            let name = &model.vserver(*id).name;
            let Some(before) = self.states.0.insert(name.clone(), now).filter(|before| *before != now) else {
                continue;
            };
            let mut fields = Map::new();
            fields.insert("from".to_owned(), json!(before.0));
            fields.insert("to".to_owned(), json!(now.0));
            fields.insert("effective".to_owned(), json!(now.1));
            let text = if before.0 == now.0 {
                format!("effective state is {}", now.1)
            } else if now.0 == now.1 {
                format!("is {}", now.0)
            } else {
                format!("is {}, effective state {}", now.0, now.1)
            };
            self.event(EventKind::State, format!("vserver {name}"), text, fields);
        }
        if self.states.0.len() > model.vservers.len() {
            let names: BTreeSet<&str> = model.vservers.iter().map(|v| v.name.as_str()).collect();
            self.states.0.retain(|name, _| names.contains(name.as_str()));
        }
    }
}
