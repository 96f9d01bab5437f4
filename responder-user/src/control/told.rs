//! What operators and agents tell of a service: `load SERVICE key=value...`, `report SERVICE key=value...`.

use std::time::Duration;

use super::Refusal;
use crate::{
    decide::{Figure, Report, ServiceState, snapshot::figure},
    model::{Model, MonitorKind, ServiceId},
};

/// Longest name of a figure.
const NAME: usize = 64;

/// `connections=120`; `connections=` forgets a figure.
pub fn figures(words: &[String]) -> Result<Vec<(String, Option<f64>)>, Refusal> {
    if words.is_empty() {
        return Err(Refusal::new("no figure is given; write one such as connections=120"));
    }
    words.iter().map(|word| one_figure(word)).collect()
}

fn one_figure(word: &str) -> Result<(String, Option<f64>), Refusal> {
    let refuse = |text: String| Refusal::new(text);
    let (name, value) = split(word)?;
    let fits = (1..=NAME).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic());
    if !fits {
        return Err(refuse(format!(
            "{name:?} is not the name of a figure; allowed are 1 to {NAME} printable characters"
        )));
    }
    if value.is_empty() {
        return Ok((name.to_owned(), None));
    }
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((name.to_owned(), Some(number + 0.0))),
        _ => Err(refuse(format!("{name}: {value:?} is not a figure; allowed is a number from 0 on"))),
    }
}

/// Figures that nothing looks at: a metric of a load monitor that the service does not have, or a slip of the pen. One
/// line for each.
pub fn unused(model: &Model, id: ServiceId, words: &[String]) -> Vec<String> {
    let service = model.service(id);
    let metrics = service.monitors.iter().flat_map(|(monitor, _)| match &model.monitor(*monitor).kind {
        MonitorKind::Load { metrics } => metrics.as_slice(),
        _ => &[],
    });
    let metrics: Vec<&str> = metrics.map(|metric| metric.name.as_str()).collect();
    let names = words.iter().filter_map(|word| word.split_once('=')).map(|(name, _)| name);
    let unused = names.filter(|name| !figure::ALL.contains(name) && !metrics.contains(name));
    let own = if metrics.is_empty() { "it has none".to_owned() } else { metrics.join(", ") };
    let known = figure::ALL.join(", ");
    unused
        .map(|name| {
            format!(
                "{name:?}: nothing looks at it; figures are {known}, and NAME=VALUE for each metric of the load monitors of \
                 service {} ({own})",
                service.name
            )
        })
        .collect()
}

/// `primary=up effective=down threshold=above`; `auto` forgets what was told.
pub fn report(before: Report, words: &[String]) -> Result<Report, Refusal> {
    if words.is_empty() {
        return Err(Refusal::new("no state is given; write one such as primary=up"));
    }
    let mut out = before;
    for word in words {
        let (key, value) = split(word)?;
        let (slot, yes, no) = match key.to_ascii_lowercase().as_str() {
            "primary" => (&mut out.primary_up, "up", "down"),
            "effective" => (&mut out.effective_up, "up", "down"),
            "threshold" => (&mut out.above, "above", "below"),
            _ => {
                let allowed = "allowed are primary, effective and threshold";
                return Err(Refusal::new(format!("{key:?} is not known; {allowed}")));
            }
        };
        *slot = match value.to_ascii_lowercase().as_str() {
            word if word == yes => Some(true),
            word if word == no => Some(false),
            "auto" => None,
            _ => {
                return Err(Refusal::new(format!(
                    "{key}: {value:?} is not known; allowed are {yes}, {no} and auto"
                )));
            }
        };
    }
    Ok(out)
}

/// Puts load figures into the state of a service; what is not named stays as it is. True if a value changed.
pub fn take_load(state: &mut ServiceState, words: &[String], at: Duration) -> Result<bool, Refusal> {
    let mut changed = false;
    for (name, value) in figures(words)? {
        changed |= state.figure(&name) != value;
        match value {
            Some(value) => drop(state.load.insert(name, Figure { value, at })),
            None => drop(state.load.remove(&name)),
        }
    }
    Ok(changed)
}

/// Puts a report into the state of a service. True if something changed.
pub fn take_report(state: &mut ServiceState, words: &[String]) -> Result<bool, Refusal> {
    let report = report(state.report, words)?;
    let changed = report != state.report;
    state.report = report;
    Ok(changed)
}

fn split(word: &str) -> Result<(&str, &str), Refusal> {
    word.split_once('=').ok_or_else(|| Refusal::new(format!("{word:?} is not key=value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn figures_are_numbers_from_zero_on() {
        let got = figures(&words("connections=12 cpu=0.5 old=")).unwrap();
        let of = |name: &str, value| (name.to_owned(), value);
        assert_eq!(got, [of("connections", Some(12.0)), of("cpu", Some(0.5)), of("old", None)]);
        for text in ["", "x", "x=-1", "x=nan", "x=inf", "x=1e999", "=1", "x=one"] {
            assert!(figures(&words(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn reports_add_up() {
        let first = report(Report::default(), &words("primary=up threshold=ABOVE")).unwrap();
        assert_eq!(first, Report { primary_up: Some(true), effective_up: None, above: Some(true) });
        let second = report(first, &words("threshold=auto effective=down")).unwrap();
        assert_eq!(second, Report { primary_up: Some(true), effective_up: Some(false), above: None });
        for text in ["", "primary", "primary=above", "threshold=up", "state=up"] {
            assert!(report(first, &words(text)).is_err(), "{text}");
        }
    }
}
