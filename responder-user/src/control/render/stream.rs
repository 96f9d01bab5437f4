//! `events` and `stats`: what comes line by line.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{Style, cell, clean, grouped, table};

/// One event in one line.
pub fn event(style: Style, value: &Value) -> String {
    let [time, kind, object, text] = ["time", "kind", "object", "text"].map(|key| cell(&value[key]));
    if style.terminal {
        format!("{time}  {kind:9}  {object}: {text}\n")
    } else {
        format!("{time}\t{kind}\t{object}\t{text}\n")
    }
}

/// A gap in the stream of events.
pub fn missed(count: u64) -> String {
    format!("{} events missed: this follower reads too slowly", grouped(count))
}

/// All counters.
pub fn stats(style: Style, value: &Value) -> String {
    let counters = value.as_object().into_iter().flatten();
    let number = |v: &Value| match v.as_u64() {
        Some(n) if style.terminal => grouped(n),
        _ => cell(v),
    };
    table(style, &["COUNTER", "TOTAL"], counters.map(|(name, v)| vec![clean(name), number(v)]).collect())
}

/// `stats --top`: the names that are asked for most.
pub fn top(style: Style, rows: &[Value]) -> String {
    let row = |row: &Value| {
        let number = |key: &str| row[key].as_f64().unwrap_or(0.0);
        vec![cell(&row["name"]), format!("{:.1}", number("per_second")), format!("{:.1}", number("percent"))]
    };
    table(style, &["NAME", "PER SECOND", "PERCENT"], rows.iter().map(row).collect())
}

/// `stats --latency`: how many runs took less than each power of two of nanoseconds, and no less than half of it.
pub fn latency(style: Style, runs: &[u64]) -> String {
    let all = runs.iter().sum::<u64>().max(1) as f64;
    let mut below = 0;
    let mut rows = Vec::new();
    for (n, count) in runs.iter().enumerate() {
        below += count;
        if *count > 0 {
            let percent = |count: u64| format!("{:.1}", count as f64 * 100.0 / all);
            rows.push(vec![
                format!("< {} ns", grouped(1 << n)),
                grouped(*count),
                percent(*count),
                percent(below),
            ]);
        }
    }
    table(style, &["TIME", "RUNS", "PERCENT", "OF ALL SO FAR"], rows)
}

/// Turns totals into rates, for `stats --watch`.
#[derive(Debug, Default)]
pub struct Watch(Option<(Instant, Value)>);

impl Watch {
    /// Takes the next totals. None for the first ones.
    pub fn rates(&mut self, now: Instant, totals: Value) -> Option<Value> {
        let before = self.0.replace((now, totals));
        let (then, old) = before?;
        let (_, new) = self.0.as_ref()?;
        let seconds = now.saturating_duration_since(then).max(Duration::from_millis(1)).as_secs_f64();
        let rate = |(name, value): (&String, &Value)| {
            let grown = value.as_u64()?.saturating_sub(old[name.as_str()].as_u64().unwrap_or(0));
            Some((name.clone(), json!((grown as f64 / seconds * 10.0).round() / 10.0)))
        };
        let rates: Map<String, Value> = new.as_object()?.iter().filter_map(rate).collect();
        Some(json!({"seconds": (seconds * 1000.0).round() / 1000.0, "rates": rates}))
    }

    /// The counters that move: a table that replaces the one before it, or a line each.
    pub fn text(&self, style: Style, time: &str, rates: &Value) -> String {
        let totals = self.0.as_ref().map(|(_, totals)| totals);
        let moving = rates["rates"].as_object().into_iter().flatten();
        let moving = moving.filter_map(|(name, r)| r.as_f64().filter(|r| *r > 0.0).map(|r| (name, r)));
        if !style.terminal {
            return super::lines(moving.map(|(name, r)| format!("{time}\t{}\t{r}", clean(name))));
        }
        let total = |name: &str| totals.and_then(|t| t[name].as_u64()).map_or_else(String::new, grouped);
        let rate = |r: f64| if r < 10.0 { format!("{r:.1}") } else { grouped(r.round() as u64) };
        let rows: Vec<_> = moving.map(|(name, r)| vec![clean(name), rate(r), total(name)]).collect();
        let body = if rows.is_empty() {
            "nothing moves\n".to_owned()
        } else {
            table(style, &["COUNTER", "PER SECOND", "TOTAL"], rows)
        };
        // Home, clear to the end of the screen: this is a terminal.
        format!("\x1b[H\x1b[J{time}  (interrupt to end)\n\n{body}")
    }
}
