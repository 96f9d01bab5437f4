//! Sessions of clients: who comes back to the service that it was given (spec/netscaler.md 3.4, 4.3).
//!
//! What a session leads to is decided beforehand, as every answer is: behind the word of an owner's rule stand, for each
//! client class, the answer for clients without a session and one answer for each choice of the rule.
//!
//! ```text
//! REFERENCES  rule | class 0: none, choice 1, .. choice n | class 1: none, choice 1, ..
//! ```
//!
//! So a session never leads to a service that is not usable now, and a change of state changes words as ever. A session
//! itself says which service of which virtual server a client was given, by names that mean the same in every world.
//! A choice of the rule is what a session is here; a session that is none of them counts for nothing.

use bytemuck::{Pod, Zeroable};

use crate::{
    class::set_aside_words,
    client::{MAPPED, mapped},
    counters::Counter,
    edns::Options,
    layout::{AnswerSet, NAME_ECS_VALIDATION, reference_slot},
    limits::MAX_POOL,
    lookup::{Ask, Found, World, at},
};

/// Choices of one rule. More services in one chain cannot be told apart by a session.
pub const MAX_CHOICES: usize = 255;

/// A session is written anew when it would live longer by so much; nanoseconds.
const REFRESH: u64 = 1 << 28;

/// Tries to find out who was first where several CPUs give one client a session at once.
const TRIES: usize = 2;

/// A service of a virtual server, by the numbers of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Choice {
    /// The service.
    pub service: u64,
    /// The virtual server that gave it; 0: any one.
    pub link: u64,
}

/// How the sessions of one owner are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Rule {
    /// Which sessions are the same, beside the client.
    pub scope: u64,
    /// Nanoseconds that a session lives without a query.
    pub timeout: u64,
    /// Nanoseconds after which a client leaves a backup that it was given; 0: when `timeout` says so.
    pub backup_timeout: u64,
    /// The owner's virtual server; choices of others are backups.
    pub primary: u64,
    /// Choices in use.
    pub count: u32,
    /// Bits of an IPv4 address that tell clients apart.
    pub mask: u8,
    /// Bits of an IPv6 address.
    pub mask6: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// The choices: first those of any virtual server. One more than can be used, so that every octet is an index.
    pub choices: [Choice; MAX_CHOICES + 1],
    /// Zero.
    pub tail: [u64; 3],
}

/// Whose session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct Key {
    /// [`Rule::scope`].
    pub scope: u64,
    /// The client in memory order, an IPv4 address as the mapped one (RFC 4291 2.5.5.2).
    pub client: [u64; 2],
}

/// What a client was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Session {
    /// What.
    pub choice: Choice,
    /// CLOCK_MONOTONIC at which it ends unless it is used, nanoseconds.
    pub until: u64,
    /// When the client came to this virtual server, likewise.
    pub since: u64,
    /// Ties the other words to the key. The kernel reuses elements of a hash map while others read them, so that a reader
    /// may find the words of two sessions, or of somebody else's.
    pub check: u64,
}

/// Where sessions are.
pub trait Store {
    /// CLOCK_MONOTONIC, nanoseconds.
    fn now(&self) -> u64;
    /// What stands at a key, whatever it is.
    fn get(&self, key: &Key) -> Option<Session>;
    /// Puts a session where none is. False: there is one.
    fn insert(&self, key: &Key, session: &Session) -> bool;
    /// Puts a session in the place of another.
    fn replace(&self, key: &Key, session: &Session);
}

impl Key {
    /// The key of a client, and the bits of the ECS prefix that decided: all that there are, since no mask applies to one
    /// (spec/netscaler.md 1.7). 0: the source decided.
    #[inline(always)]
    pub fn of(rule: &Rule, ask: &Ask, options: &Options) -> (Self, u32) {
        let mut whole = mapped(ask.client.words());
        let [low, high] = whole;
        let is_ipv4 = low == 0 && u64::from(high as u32) == MAPPED;
        let mut bits = if is_ipv4 { 96 + u32::from(rule.mask) } else { u32::from(rule.mask6) };
        let mut scope = 0;
        if ask.has_subnet {
            let words = ([options.subnet[1], options.subnet[2]], options.family() == 2);
            let validates = ask.flags & NAME_ECS_VALIDATION != 0;
            let aside = if validates { set_aside_words(words) } else { None };
            scope = aside.unwrap_or(options.source_len());
            if aside.is_none() {
                (whole, bits) = (mapped(words), 128);
            }
        }
        let client = [whole[0] & front(bits), whole[1] & front(bits.saturating_sub(64))];
        (Self { scope: rule.scope, client }, scope)
    }

    #[inline(always)]
    fn check(&self, session: &Session) -> u64 {
        let Session { choice, until, since, .. } = session;
        let mut sum = 0x51f5_2c6d_9e37_79b1_u64;
        for word in [self.scope, self.client[0], self.client[1], choice.service, choice.link, *until, *since]
        {
            sum = (sum ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25);
            sum ^= sum >> 32;
        }
        sum
    }
}

/// The first so many bits of eight octets in memory order; 64 and more: all of them.
#[inline(always)]
fn front(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (!(u64::MAX >> bits)).swap_bytes() }
}

impl Session {
    /// A session of this key.
    #[inline(always)]
    pub fn new(key: &Key, choice: Choice, until: u64, since: u64) -> Self {
        let mut out = Self { choice, until, since, check: 0 };
        out.check = key.check(&out);
        out
    }

    /// True if these words are one session of this key.
    #[inline(always)]
    pub fn is_of(&self, key: &Key) -> bool {
        key.check(self) == self.check
    }
}

impl Rule {
    /// The choice that a session is, from 1 on; 0: none. What names its virtual server goes before what names none.
    ///
    /// Without a branch for what is compared: a program that is checked path by path has one path here. `forget` as
    /// [`World::forget`].
    #[inline(always)]
    pub fn find(&self, session: &Session, forget: impl Fn(usize) -> usize) -> u32 {
        // 1 for a word that is not 0.
        let sign = |word: u64| forget(((word | word.wrapping_neg()) >> 63) as usize) as u32;
        let mut found = 0;
        for (i, choice) in self.choices.iter().enumerate() {
            if i as u32 >= self.count {
                break;
            }
            let other_link = sign(choice.link) & sign(choice.link ^ session.choice.link);
            let same = (sign(choice.service ^ session.choice.service) | other_link).wrapping_sub(1);
            found = (found & !same) | ((i as u32 + 1) & same);
        }
        forget(found as usize) as u32
    }

    /// True for a client of a backup.
    #[inline(always)]
    fn is_backup(&self, session: &Session) -> bool {
        session.choice.link != 0 && session.choice.link != self.primary
    }

    /// True if a backup has had the client for long enough.
    #[inline(always)]
    pub fn is_over(&self, session: &Session, now: u64) -> bool {
        self.backup_timeout != 0
            && self.is_backup(session)
            && now >= session.since.wrapping_add(self.backup_timeout)
    }
}

/// What stands at a key.
struct Met {
    /// Any words.
    there: Option<Session>,
    /// A session of the key.
    old: Option<Session>,
    /// It has not ended, and it is a choice of the rule.
    lives: bool,
}

/// Writes what a client was given. False: another CPU was first; look again.
#[inline(always)]
fn keep<S: Store>(store: &S, rule: &Rule, key: &Key, met: &Met, given: Choice, now: u64) -> bool {
    let until = now.wrapping_add(rule.timeout);
    let Some(old) = met.old else {
        let session = Session::new(key, given, until, now);
        if met.there.is_none() {
            return store.insert(key, &session);
        }
        // Words of nobody's are in the way.
        store.replace(key, &session);
        return true;
    };
    // Who shares the session and does not tell virtual servers apart leaves standing which one it was.
    let same_link = given.link == old.choice.link || given.link == 0;
    if met.lives && given.service == old.choice.service && same_link {
        if until > old.until.wrapping_add(REFRESH) {
            store.replace(key, &Session::new(key, old.choice, until, old.since));
        }
    } else {
        let since = if met.lives && given.link == old.choice.link { old.since } else { now };
        store.replace(key, &Session::new(key, given, until, since));
    }
    true
}

/// The choice of a client whose answers are in no set; 0: none.
pub fn peek<S: Store>(store: &S, rule: &Rule, key: &Key) -> u32 {
    meet(store, rule, key, store.now()).1
}

/// Keeps the choice that such a client was given, from 1 on.
pub fn note<S: Store>(store: &S, rule: &Rule, key: &Key, choice: u8) {
    let Some(given) = usize::from(choice).checked_sub(1).and_then(|at| rule.choices.get(at)) else { return };
    let now = store.now();
    let (met, _) = meet(store, rule, key, now);
    keep(store, rule, key, &met, *given, now);
}

/// What stands at a key, and which choice it is.
fn meet<S: Store>(store: &S, rule: &Rule, key: &Key, now: u64) -> (Met, u32) {
    let there = store.get(key);
    let old = there.filter(|session| session.is_of(key));
    let choice = match old {
        Some(old) if now < old.until && !rule.is_over(&old, now) => rule.find(&old, |value| value),
        _ => 0,
    };
    (Met { there, old, lives: choice != 0 }, choice)
}

/// The answer for a client, who has a session afterwards if the answer is a service's.
///
/// Where two CPUs meet one new client, the second finds the session of the first and follows it. Where both replace a
/// session that leads nowhere, the later one stays.
#[inline(always)]
pub fn choose<M: World + ?Sized, S: Store>(
    world: &M,
    store: &S,
    ask: &Ask,
    class: u32,
    options: &Options,
) -> Result<Found, Counter> {
    let word = world.reference(ask.index).ok_or(Counter::PassBroken)?;
    let rule = world.rule(reference_slot(word)).ok_or(Counter::PassBroken)?;
    let (key, scope) = Key::of(rule, ask, options);
    let now = store.now();
    let base = first(ask.index, class, rule);
    let mut last = None;
    for _ in 0..TRIES {
        let there = store.get(&key);
        let old = there.filter(|session| session.is_of(&key));
        let choice = old.map_or(0, |old| {
            if rule.is_over(&old, now) { 0 } else { rule.find(&old, |value| world.forget(value)) }
        });
        let (mut found, mut set) = at(world, base.wrapping_add(choice))?;
        let mut lives = choice != 0;
        if let Some(old) = old
            && lives
            && now >= old.until
            && now >= set.hold
        {
            lives = false;
            (found, set) = at(world, base)?;
        }
        last = Some(found);
        let Some(given) = given(world, rule, set, found.start) else { break };
        let met = Met { there, old, lives };
        if keep(store, rule, &key, &met, given, now) {
            break;
        }
    }
    last.map(|found| Found { scope, ..found }).ok_or(Counter::PassBroken)
}

/// What the first place of a set stands for. None: nothing that a session is kept with.
#[inline(always)]
fn given<M: World + ?Sized>(world: &M, rule: &Rule, set: &AnswerSet, start: u32) -> Option<Choice> {
    let choice = usize::from(set.choices[start as usize & (MAX_POOL - 1)]);
    if choice == 0 {
        return None;
    }
    Some(rule.choices[world.forget(choice - 1) & MAX_CHOICES])
}

/// The number of the answer without a session.
#[inline(always)]
fn first(index: u32, class: u32, rule: &Rule) -> u32 {
    index.wrapping_add(1).wrapping_add(class.wrapping_mul(rule.count.wrapping_add(1)))
}

const _: () = {
    assert!(size_of::<Rule>() == 4160);
    assert!(size_of::<Key>() == 24 && size_of::<Session>() == 40);
    // Choices have one octet in a set, and 0 is none.
    assert!(MAX_CHOICES < 256);
};
