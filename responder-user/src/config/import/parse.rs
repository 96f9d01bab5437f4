//! From tokens to a command, by the arity table.

use super::{
    kind::{Kind, OPS, OTHER_OPS, Op},
    lexer::Token,
    objects::Values,
    table::{self, Arg, Binding, Spec, Use, Value},
    value,
};

/// Who gives a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A saved file: keywords of other releases are left out with a warning.
    File,
    /// A person: words may be cut short, what is not known is an error.
    Shell,
    /// What [`super::Output`] keeps for itself: nothing is said.
    Kept,
}

/// A command that was understood.
#[derive(Clone, Debug, Default)]
pub(super) struct Command {
    pub(super) op: Option<Op>,
    pub(super) kind: Option<Kind>,
    /// Names of the objects, each in its parts; none for `show` of all.
    pub(super) names: Vec<Vec<String>>,
    pub(super) values: Values,
    /// What is to be tied, untied or changed.
    pub(super) tied: Option<Tied>,
    /// Keywords of `unset`.
    pub(super) unset: Vec<&'static str>,
}

/// Something tied to an object.
#[derive(Clone, Debug)]
pub(super) struct Tied {
    pub(super) what: &'static str,
    pub(super) name: String,
    pub(super) values: Values,
    /// Keywords of `unbind` that name a part.
    pub(super) unset: Vec<&'static str>,
}

/// What comes of a line.
pub(super) enum Parsed {
    Command(Command),
    /// It has no meaning here.
    Notice(String),
}

/// What is said about a line beside its result.
#[derive(Default)]
pub(super) struct Remarks {
    pub(super) warnings: Vec<String>,
    /// Keywords that are kept without an effect.
    pub(super) kept: Vec<&'static str>,
    /// Keywords that are left out.
    pub(super) dropped: Vec<String>,
    /// What else is to be known.
    pub(super) notices: Vec<String>,
}

/// Reads a command. The error is the reason.
pub(super) fn parse(mode: Mode, tokens: &[Token], remarks: &mut Remarks) -> Result<Parsed, String> {
    let Some(first) = tokens.first() else { return Ok(Parsed::Notice(String::new())) };
    let Some(op) = op(mode, &first.text) else {
        let is_other = OTHER_OPS.iter().any(|word| word.eq_ignore_ascii_case(&first.text));
        return match mode {
            Mode::Shell if !is_other => Err(format!("No such command [{}]", first.text)),
            _ if is_other => Ok(Parsed::Notice(format!("{} has no meaning here", first.text))),
            _ => Ok(Parsed::Notice("is no command".to_owned())),
        };
    };
    let (spec, rest) = match object(mode, &tokens[1..], remarks) {
        Ok(found) => found,
        Err(words) => return foreign(op, &words, mode),
    };
    if !spec.ops.contains(&op) {
        if spec.kind == Kind::Adns {
            return Ok(Parsed::Notice(format!("{} service has no meaning here", op.word())));
        }
        return Err(format!("{} does not go with {}", op.word(), spec.words));
    }
    let is_listener =
        |token: &Token| ["ADNS", "ADNS_TCP"].iter().any(|t| t.eq_ignore_ascii_case(&token.text));
    if spec.kind == Kind::Adns && op == Op::Add && !rest.get(2).is_some_and(is_listener) {
        let text = "services of load balancing have no meaning here, but those of type ADNS are listened on";
        return Ok(Parsed::Notice(text.to_owned()));
    }
    Reader { mode, op, spec, tokens: rest, at: 0, remarks, out: Command::default() }
        .read()
        .map(Parsed::Command)
}

fn op(mode: Mode, word: &str) -> Option<Op> {
    let exact = OPS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word));
    if let Some((_, op)) = exact {
        return Some(*op);
    }
    let begins = |known: &str| known.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    let mut found = OPS
        .iter()
        .filter(|(known, _)| mode == Mode::Shell && word.len() > 1 && begins(known))
        .map(|(_, op)| *op);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

/// Groups that have kinds of ours.
const GROUPS: [&str; 3] = ["gslb", "dns", "lb"];

/// Kinds of these groups that an appliance has and that have no meaning here.
const THEIRS: [&str; 28] = [
    "lb policy",
    "lb policylabel",
    "lb action",
    "lb group",
    "lb route",
    "lb route6",
    "lb parameter",
    "lb profile",
    "lb wlm",
    "lb global",
    "lb sipParameters",
    "lb persistentSessions",
    "dns nameServer",
    "dns suffix",
    "dns proxyRecords",
    "dns key",
    "dns zone",
    "dns caaRec",
    "dns naptrRec",
    "dns nsecRec",
    "dns subnetCache",
    "dns records",
    "dns policy64",
    "dns action64",
    "gslb config",
    "gslb ldnsentries",
    "gslb ldnsentry",
    "gslb runningConfig",
];

/// The kind of object, and the tokens behind its words. Err: the words.
fn object(
    mode: Mode,
    tokens: &[Token],
    remarks: &mut Remarks,
) -> Result<(&'static Spec, Vec<Token>), String> {
    let mut words: Vec<String> = tokens.iter().take(2).map(|token| token.text.clone()).collect();
    let first = words.first().cloned().unwrap_or_default();
    // The group word that the vendor's own pages leave out.
    for (lost, group) in [("site", "gslb"), ("metricTable", "lb")] {
        if first.eq_ignore_ascii_case(lost) {
            remarks.warnings.push(format!("{first} is read as {group} {lost}"));
            return Ok((find(&[group, lost])?, tokens[1..].to_vec()));
        }
    }
    if mode == Mode::Shell {
        words = complete(&words);
    }
    let two: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Ok(spec) = find(&two) {
        return Ok((spec, tokens[two.len()..].to_vec()));
    }
    if let Ok(spec) = find(&two[..two.len().min(1)]) {
        return Ok((spec, tokens[1..].to_vec()));
    }
    // `set gslb vserver<name>`: no space before the name.
    if let [group, glued] = &two[..]
        && GROUPS.iter().any(|known| known.eq_ignore_ascii_case(group))
        && let Some(name) =
            glued.get("vserver".len()..).filter(|_| glued[..7].eq_ignore_ascii_case("vserver"))
        && let Ok(spec) = find(&[group, "vserver"])
    {
        let name = name.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or(name);
        remarks.warnings.push(format!("{glued} is read as vserver {name}"));
        let mut rest = tokens[1..].to_vec();
        rest[0] = Token { text: name.to_owned(), is_quoted: false, is_glued: false };
        return Ok((spec, rest));
    }
    Err(two.join(" "))
}

fn find(words: &[&str]) -> Result<&'static Spec, String> {
    let joined = words.join(" ");
    let is_it = |spec: &&Spec| {
        spec.words.eq_ignore_ascii_case(&joined)
            || spec.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(&joined))
    };
    table::specs().iter().filter(|_| !words.is_empty()).find(is_it).ok_or(joined)
}

/// Words cut short, as people type them: `gslb vs`. What is ambiguous stays as it is.
fn complete(words: &[String]) -> Vec<String> {
    let begins =
        |known: &str, word: &str| known.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    let unique = |candidates: Vec<&'static str>, word: &str| -> Option<String> {
        if let Some(exact) = candidates.iter().find(|c| c.eq_ignore_ascii_case(word)) {
            return Some((*exact).to_owned());
        }
        let mut found: Vec<_> = candidates.into_iter().filter(|c| begins(c, word)).collect();
        found.sort_unstable();
        found.dedup();
        (found.len() == 1).then(|| found[0].to_owned())
    };
    let [first, rest @ ..] = words else { return words.to_vec() };
    let heads = table::specs().iter().map(|spec| spec.words.split(' ').next().unwrap_or_default()).collect();
    let Some(head) = unique(heads, first) else { return words.to_vec() };
    let mut out = vec![head.clone()];
    if let [second, ..] = rest {
        let seconds =
            table::specs().iter().filter_map(|spec| spec.words.strip_prefix(&format!("{head} "))).collect();
        out.push(unique(seconds, second).unwrap_or_else(|| second.clone()));
    }
    out
}

/// A command about something that is not configured here.
fn foreign(op: Op, words: &str, mode: Mode) -> Result<Parsed, String> {
    let mut parts = words.split(' ');
    let (group, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if group.is_empty() {
        return Err(format!("{} of what?", op.word()));
    }
    if group.eq_ignore_ascii_case("spillover") {
        return Err("spillover by policy is not supported; use -soMethod and -soThreshold".to_owned());
    }
    if group.eq_ignore_ascii_case("gslb") && second.eq_ignore_ascii_case("serviceGroup") {
        return Err("gslb serviceGroup is not supported; add each member as a gslb service".to_owned());
    }
    let is_known = GROUPS.iter().any(|known| known.eq_ignore_ascii_case(group));
    let is_theirs = THEIRS.iter().any(|theirs| theirs.eq_ignore_ascii_case(words));
    if mode == Mode::Shell && is_known && !is_theirs {
        return Err(format!("No such command [{} {words}]", op.word()));
    }
    Ok(Parsed::Notice(format!("{} {words} has no meaning here", op.word())))
}

struct Reader<'r> {
    mode: Mode,
    op: Op,
    spec: &'static Spec,
    tokens: Vec<Token>,
    at: usize,
    remarks: &'r mut Remarks,
    out: Command,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Command, String> {
        self.out.op = Some(self.op);
        self.out.kind = Some(self.spec.kind);
        self.drop_mx();
        self.positionals()?;
        while let Some(token) = self.tokens.get(self.at).cloned() {
            if !token.is_keyword() {
                return Err(format!("extra argument [{}]", token.text));
            }
            self.at += 1;
            self.keyword(&token.text[1..])?;
        }
        if self.spec.kind == Kind::LbVserver && self.op == Op::Add {
            self.remarks.notices.push("kept and shown; it answers nothing here".to_owned());
        }
        if matches!(self.op, Op::Bind | Op::Unbind) && self.out.tied.is_none() {
            return Err(format!("argument is missing: what to {}", self.op.word()));
        }
        Ok(self.out)
    }

    /// `add dns mxRec d -mx m -pref 10`: the mail server is a part of the record's name, and has a keyword.
    fn drop_mx(&mut self) {
        let is_mx = |token: &Token| token.is_keyword() && token.text.eq_ignore_ascii_case("-mx");
        if self.spec.kind != Kind::MxRec || self.tokens.is_empty() {
            return;
        }
        if let Some(at) = self.tokens.iter().position(is_mx) {
            self.tokens.remove(at);
            if at < self.tokens.len() {
                let server = self.tokens.remove(at);
                self.tokens.insert(1.min(self.tokens.len()), server);
            }
        }
    }

    /// The next token, unless it is a keyword. `-5` is a value where a number is wanted.
    fn take(&mut self, arg: &Arg) -> Option<String> {
        let token = self.tokens.get(self.at)?;
        let digits = token.text.strip_prefix('-').unwrap_or_default();
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && matches!(arg.value, Value::Degrees(_) | Value::Number(..) | Value::Period);
        if token.is_keyword() && !is_number {
            return None;
        }
        self.at += 1;
        Some(token.text.clone())
    }

    /// True if the next token is a value that this argument takes; the others are left to who comes next.
    fn fits(&self, arg: &Arg) -> bool {
        let Some(token) = self.tokens.get(self.at).filter(|token| !token.is_keyword()) else { return false };
        match arg.value {
            Value::Word(words) if arg.least == 0 => {
                words.iter().any(|word| word.eq_ignore_ascii_case(&token.text))
            }
            _ => true,
        }
    }

    fn positionals(&mut self) -> Result<(), String> {
        let all = self.spec.positionals;
        let is_query = matches!(self.op, Op::Show | Op::Stat | Op::Clear);
        let mut ids: Vec<Vec<String>> = Vec::new();
        for (i, arg) in all.iter().enumerate() {
            let is_id = i < self.spec.ids;
            let is_asked = match self.op {
                Op::Add => true,
                // `set dns policy p RULE`, `set dns nsRec d ns -TTL n`.
                Op::Set => is_id || self.spec.kind == Kind::DnsPolicy,
                _ => is_id,
            };
            if !is_asked {
                continue;
            }
            let may_lack = arg.least == 0
                || is_query
                || (self.op == Op::Set && !is_id)
                || (i > 0
                    && matches!(self.op, Op::Rm | Op::Unset | Op::Set)
                    && self.spec.ops == table_record());
            if !self.fits(arg) {
                if may_lack {
                    continue;
                }
                if self.tokens.get(self.at).is_some_and(|token| !token.is_keyword()) {
                    return Err(format!("{}: invalid value [{}]", arg.key, self.tokens[self.at].text));
                }
                return Err(format!("argument is missing [{}]", arg.key));
            }
            let mut list = Vec::new();
            while list.len() < arg.most && self.fits(arg) {
                let Some(typed) = self.take(arg) else { break };
                list.push(value::read(arg, &typed)?);
            }
            if is_id {
                ids.push(list);
            } else {
                self.out.values.insert(arg.key, list);
            }
        }
        self.names(ids)?;
        if let Some(binding) = self.spec.bindings.first().filter(|binding| binding.is_positional) {
            let wants = matches!(self.op, Op::Bind | Op::Unbind)
                || (self.op == Op::Set && self.tokens.get(self.at).is_some_and(|token| !token.is_keyword()));
            if wants {
                self.tie(binding)?;
            }
        }
        if self.op == Op::Rename {
            let new = self.take(&self.spec.positionals[0]).ok_or("argument is missing [newName]")?;
            value::new_name(&new).map_err(|why| format!("newName: {why}"))?;
            self.out.values.insert("newName", vec![new]);
        }
        Ok(())
    }

    /// The names of the objects: several records may stand in one line.
    fn names(&mut self, ids: Vec<Vec<String>>) -> Result<(), String> {
        let mut ids = ids.into_iter();
        match (ids.next(), ids.next()) {
            (None, _) => {
                if self.spec.ids == 0 {
                    self.out.names.push(Vec::new());
                }
            }
            (Some(first), None) => {
                let name = first.into_iter().next().unwrap_or_default();
                if self.op == Op::Add
                    && !matches!(self.spec.positionals[0].value, Value::Domain | Value::Address)
                {
                    value::new_name(&name)
                        .map_err(|why| format!("{}: {why}", self.spec.positionals[0].key))?;
                }
                if self.spec.kind == Kind::MetricTable && self.op == Op::Add && name.len() > 31 {
                    return Err(format!("metricTable: {name} has more than 31 characters"));
                }
                self.out.names.push(vec![name]);
            }
            (Some(first), Some(second)) if self.spec.kind == Kind::TxtRec => {
                self.out.names.push(first.into_iter().chain(second).collect());
            }
            (Some(first), Some(second)) => {
                let owner = first.into_iter().next().unwrap_or_default();
                self.out.names.extend(second.into_iter().map(|data| vec![owner.clone(), data]));
            }
        }
        Ok(())
    }

    /// What a binding says, its name first.
    fn tie(&mut self, binding: &'static Binding) -> Result<(), String> {
        let typed =
            self.take(&binding.what).ok_or_else(|| format!("argument is missing [{}]", binding.what.key))?;
        let name = value::read(&binding.what, &typed)?;
        let mut tied = Tied { what: binding.what.key, name, values: Values::new(), unset: Vec::new() };
        if self.op == Op::Unbind {
            // What was given to `bind` may be given again.
            while self.tokens.get(self.at).is_some_and(|token| !token.is_keyword()) {
                self.at += 1;
            }
        } else {
            for arg in binding.positionals {
                match self.take(arg) {
                    Some(typed) => drop(tied.values.insert(arg.key, vec![value::read(arg, &typed)?])),
                    None if arg.least == 0 => {}
                    None => return Err(format!("argument is missing [{}]", arg.key)),
                }
            }
        }
        if let Some(other) = &self.out.tied {
            return Err(format!("{} excludes {}", tied.what, other.what));
        }
        self.out.tied = Some(tied);
        Ok(())
    }

    fn keyword(&mut self, word: &str) -> Result<(), String> {
        let word = self.whole(word);
        let is_tying = matches!(self.op, Op::Bind | Op::Unbind | Op::Set);
        if is_tying && let Some(binding) = self.spec.binding(&word).filter(|b| !b.is_positional) {
            // `set dns policy -viewName` and the like are keywords of the object.
            if self.op != Op::Set || self.spec.option(&word).is_none() {
                return self.tie(binding);
            }
        }
        if self.op == Op::Set && self.spec.kind == Kind::Service && word.eq_ignore_ascii_case("weight") {
            return self.monitor_weight();
        }
        let beside = self
            .out
            .tied
            .as_ref()
            .and_then(|tied| self.spec.bindings.iter().find(|b| b.what.key == tied.what));
        let of_binding = beside.and_then(|binding| binding.option(&word));
        let found =
            of_binding.or_else(|| self.spec.option(&word).filter(|_| beside.is_none() || self.op == Op::Set));
        let Some(arg) = found else { return self.unknown(&word) };
        if self.op == Op::Unset || (self.op == Op::Unbind && !matches!(arg.value, Value::Word(_))) {
            while self.op == Op::Unbind && self.tokens.get(self.at).is_some_and(|token| !token.is_keyword()) {
                self.at += 1;
            }
            match &mut self.out.tied {
                Some(tied) if of_binding.is_some() => tied.unset.push(arg.key),
                _ => self.out.unset.push(arg.key),
            }
            return Ok(());
        }
        if matches!(self.op, Op::Rm | Op::Enable | Op::Disable | Op::Rename) {
            return self.unknown(&word);
        }
        let list = self.values(arg)?;
        match arg.use_ {
            Use::Dropped => {
                self.remarks.dropped.push(format!("-{}", arg.key));
                return Ok(());
            }
            Use::Kept if Some(list.join(" ").as_str()) != arg.default => self.remarks.kept.push(arg.key),
            _ => {}
        }
        match &mut self.out.tied {
            Some(tied) if of_binding.is_some() => tied.values.insert(arg.key, list),
            _ => self.out.values.insert(arg.key, list),
        };
        Ok(())
    }

    /// A keyword that a person cut short.
    fn whole(&self, word: &str) -> String {
        if self.mode != Mode::Shell || word.is_empty() {
            return word.to_owned();
        }
        let of_bindings = self.spec.bindings.iter().flat_map(|b| b.options.iter().chain([&b.what]));
        let keys: Vec<_> = self.spec.options.iter().chain(of_bindings).map(|arg| arg.key).collect();
        if keys.iter().any(|key| key.eq_ignore_ascii_case(word)) {
            return word.to_owned();
        }
        let mut found: Vec<_> = keys
            .into_iter()
            .filter(|key| key.get(..word.len()).is_some_and(|h| h.eq_ignore_ascii_case(word)))
            .collect();
        found.sort_unstable();
        found.dedup();
        if let [one] = found[..] { one.to_owned() } else { word.to_owned() }
    }

    /// `set gslb service s -weight 5 monitor`
    fn monitor_weight(&mut self) -> Result<(), String> {
        let Some(binding) = self.spec.binding("monitorName") else { return Ok(()) };
        let Some(arg) = binding.option("weight") else { return Ok(()) };
        let typed = self.take(arg).ok_or("argument is missing [weight]")?;
        let weight = value::read(arg, &typed)?;
        self.tie(binding)?;
        if let Some(tied) = &mut self.out.tied {
            tied.values.insert("weight", vec![weight]);
        }
        Ok(())
    }

    /// The values of a keyword.
    fn values(&mut self, arg: &Arg) -> Result<Vec<String>, String> {
        let mut list: Vec<String> = Vec::new();
        while list.len() < arg.most {
            if matches!(arg.value, Value::Period) && list.len() == 1 {
                let units = ["SEC", "MSEC", "MIN"];
                let next = self.tokens.get(self.at).filter(|token| !token.is_keyword());
                if let Some(unit) = next.and_then(|t| units.iter().find(|u| u.eq_ignore_ascii_case(&t.text)))
                {
                    self.at += 1;
                    list.push((*unit).to_owned());
                }
                break;
            }
            let Some(typed) = self.take(arg) else { break };
            list.push(value::read(arg, &typed)?);
        }
        if list.len() < arg.least {
            return Err(format!("argument is missing behind -{}", arg.key));
        }
        if arg.most > 1
            && list.len() == arg.most
            && self.tokens.get(self.at).is_some_and(|token| !token.is_keyword())
        {
            if arg.key == "preferredLocList" {
                return Err(format!("more than {} preferred locations", arg.most));
            }
            return Err(format!(
                "extra argument [{}]: -{} takes at most {} values",
                self.tokens[self.at].text, arg.key, arg.most
            ));
        }
        Ok(if matches!(arg.value, Value::Period) { value::period(&list) } else { list })
    }

    /// A keyword that is not in the table.
    fn unknown(&mut self, word: &str) -> Result<(), String> {
        while self.tokens.get(self.at).is_some_and(|token| !token.is_keyword()) {
            self.at += 1;
        }
        if matches!(self.op, Op::Show | Op::Stat) {
            return Ok(());
        }
        if self.spec.is_open || self.mode == Mode::Kept {
            self.remarks.dropped.push(format!("-{word}"));
            return Ok(());
        }
        let of_binding = self
            .spec
            .bindings
            .iter()
            .any(|b| b.option(word).is_some() || b.what.key.eq_ignore_ascii_case(word));
        if self.mode == Mode::Shell || of_binding {
            return Err(format!("No such argument [-{word}]"));
        }
        self.remarks.warnings.push(format!("-{word} is not known and is left out"));
        Ok(())
    }
}

/// The operations of records, whose data may be left out after their owner.
fn table_record() -> &'static [Op] {
    table::spec_of(Kind::NsRec).ops
}
