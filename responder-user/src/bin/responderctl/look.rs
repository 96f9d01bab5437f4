//! `capture`, `stats --top` and `stats --latency`: looks at the packet path for a while.

use std::{
    cell::RefCell,
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    rc::Rc,
    time::{Duration, Instant},
};

use pcap_file::{
    DataLink, PcapError, TsResolution,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
};
use responder_common::sample::SNAP;
use responder_user::control::{
    Command,
    capture::{Sample, Wanted, frame, top::Top},
    cli::{Action, Cli, Output},
    client::{Client, ClientError, News},
    render::{self, Style},
};
use serde_json::{Value, json};

use crate::Failure;

/// Between two looks at the clock.
const SLICE: Duration = Duration::from_millis(100);

/// What a capture ended with.
#[derive(Debug, Default)]
struct End {
    /// Samples that the ring buffer had no room for.
    lost: u64,
    /// Samples that we were too slow for.
    missed: u64,
}

/// Asks for packets. Err: the daemon refuses.
fn begin(client: &mut Client, wanted: &Wanted) -> Result<(), Failure> {
    let started = client.capture(wanted)?;
    let names: Vec<&str> =
        started["interfaces"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    eprintln!("responderctl: capturing on {}", names.join(" "));
    Ok(())
}

/// Listens until `until`, or until `take` says that it is enough. `idle` is called now and then.
fn listen(
    client: &mut Client,
    until: Option<Instant>,
    mut take: impl FnMut(&Sample) -> Result<bool, Failure>,
    mut idle: impl FnMut() -> Result<(), Failure>,
) -> Result<End, Failure> {
    let mut end = End::default();
    let mut is_enough = false;
    let mut looked = Instant::now();
    while !is_enough {
        client.wait(Some(SLICE))?;
        match client.news() {
            Ok(News::Sample(sample)) => is_enough = !take(&sample)?,
            Ok(News::Missed(count)) => end.missed += count,
            Ok(News::End(_) | News::Event(_)) => return Ok(end),
            Err(ClientError::Silent(..)) => {}
            Err(error) => return Err(error.into()),
        }
        if looked.elapsed() >= SLICE {
            looked = Instant::now();
            idle()?;
        }
        is_enough |= until.is_some_and(|until| Instant::now() >= until);
    }
    client.end_capture()?;
    loop {
        match client.news()? {
            News::Missed(count) => end.missed += count,
            News::End(value) => {
                end.lost = value["lost"].as_u64().unwrap_or(0);
                return Ok(end);
            }
            // What was under way when it was enough.
            News::Sample(_) | News::Event(_) => {}
        }
    }
}

impl End {
    /// On standard error, if anything is missing.
    fn say(&self) {
        if self.lost + self.missed > 0 {
            eprintln!(
                "responderctl: {} packets are missing: {} found no room in the kernel, {} came too fast for this terminal or file",
                self.lost + self.missed,
                self.lost,
                self.missed
            );
        }
    }
}

/// A file that is written by the pcap writer, which cannot flush, and flushed by us.
#[derive(Clone)]
struct Shared(Rc<RefCell<BufWriter<File>>>);

impl Write for Shared {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

fn pcap(path: &Path) -> Result<(PcapWriter<Shared>, Shared), Failure> {
    let file =
        File::create(path).map_err(|error| Failure::Say(format!("{}: {error}", path.display()), vec![]))?;
    let header = PcapHeader {
        snaplen: SNAP as u32,
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let file = Shared(Rc::new(RefCell::new(BufWriter::new(file))));
    let writer = PcapWriter::with_header(file.clone(), header).map_err(|error| failed(&error))?;
    Ok((writer, file))
}

fn failed(error: &PcapError) -> Failure {
    match error {
        PcapError::IoError(error) => Failure::say(error),
        other => Failure::say(other),
    }
}

/// `capture`
pub fn capture(cli: &Cli, client: &mut Client, command: &Command) -> Result<(), Failure> {
    let (Action::Capture { write, count, seconds, .. }, Command::Capture(wanted)) = (&cli.action, command)
    else {
        return Ok(());
    };
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // A file that is there is kept where the daemon refuses.
    begin(client, wanted)?;
    let (mut writer, mut file) = write.as_deref().map(pcap).transpose()?.unzip();
    let mut out = io::stdout();
    // Queries, and frames that were written.
    let (mut queries, mut outcomes, mut frames) = (0_u64, 0_u64, 0_u64);
    let take = |sample: &Sample| {
        if sample.kind == "query" {
            // An answer that is still missing will not come: this query is later.
            if count.is_some_and(|count| queries >= count) {
                return Ok(false);
            }
            queries += 1;
        } else {
            outcomes += 1;
        }
        match &mut writer {
            Some(_) if sample.kind == "verdict" => {}
            Some(writer) => {
                let octets = sample.octets();
                let time = Duration::from_nanos(sample.nanoseconds);
                let packet = PcapPacket::new(time, sample.length, &octets);
                writer.write_packet(&packet).map_err(|error| failed(&error))?;
                frames += 1;
            }
            None => {
                out.write_all(line(cli.output, sample)?.as_bytes())?;
                out.flush()?;
            }
        }
        // The answer to the last query is part of it.
        Ok(count.is_none_or(|count| queries < count || outcomes < count))
    };
    let idle = || Ok(file.as_mut().map_or(Ok(()), Write::flush)?);
    let end = listen(client, until, take, idle)?;
    if let Some(mut file) = file {
        file.flush()?;
        eprintln!("responderctl: {frames} frames of {queries} queries");
    }
    end.say();
    Ok(())
}

/// One packet in one line.
fn line(output: Output, sample: &Sample) -> Result<String, Failure> {
    if output == Output::Json {
        return serde_json::to_string(sample).map(|line| line + "\n").map_err(|e| Failure::say(&e));
    }
    let verdict = sample.verdict.as_deref().unwrap_or("-");
    let what = frame::read(&sample.octets()).map_or_else(
        || "-\t-\t-\t-".to_owned(),
        |seen| {
            let [from, to] = [seen.from, seen.to].map(|(address, port)| format!("{address}#{port}"));
            let name = render::clean(&seen.name.to_string());
            format!("{from}\t{to}\t{name}\tTYPE{}", seen.qtype)
        },
    );
    Ok(format!("{}\t{}.{}\t{}\t{what}\t{verdict}\n", sample.time, sample.cpu, sample.number, sample.kind))
}

/// `stats --top`
pub fn top(
    cli: &Cli,
    client: &mut Client,
    command: &Command,
    most: usize,
    seconds: u64,
) -> Result<(), Failure> {
    let Command::Capture(wanted) = command else { return Ok(()) };
    let mut top = Top::default();
    let until = Instant::now() + Duration::from_secs(seconds);
    let take = |sample: &Sample| {
        if let Some(seen) = frame::read(&sample.octets()) {
            top.add(seen.name.to_string());
        }
        Ok(true)
    };
    begin(client, wanted)?;
    let end = listen(client, Some(until), take, || Ok(()))?;
    let rate = |count: u64| (count * wanted.every) as f64 / seconds as f64;
    let share = |count: u64| count as f64 * 100.0 / top.total().max(1) as f64;
    let rows: Vec<Value> = top
        .list(most)
        .into_iter()
        .map(|(name, count)| json!({"name": name, "sampled": count, "per_second": rate(count), "percent": share(count)}))
        .collect();
    let text = match cli.output {
        Output::Json => render::pretty(&json!({
            "seconds": seconds,
            "every": wanted.every,
            "sampled": top.total(),
            "counts_may_be_short_by": top.short(),
            "lost": end.lost + end.missed,
            "names": rows,
        })),
        Output::Text => render::top(Style::of_stdout(), &rows),
    };
    io::stdout().write_all(text.as_bytes())?;
    end.say();
    Ok(())
}

/// `stats --latency`
pub fn latency(cli: &Cli, client: &mut Client, seconds: u64) -> Result<(), Failure> {
    let read = |client: &mut Client, seconds| -> Result<Vec<u64>, Failure> {
        let value = client.call(&Command::Latency { seconds })?;
        let places = value["nanoseconds_below_power_of_two"].as_array().cloned().unwrap_or_default();
        Ok(places.iter().map(|place| place.as_u64().unwrap_or(0)).collect())
    };
    let before = read(client, Some(seconds))?;
    std::thread::sleep(Duration::from_secs(seconds));
    let after = read(client, None)?;
    let runs: Vec<u64> =
        after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before)).collect();
    let text = match cli.output {
        Output::Json => {
            let places = runs.iter().enumerate().filter(|(_, count)| **count > 0);
            let places: Vec<Value> =
                places.map(|(n, count)| json!({"below_nanoseconds": 1_u64 << n, "runs": count})).collect();
            render::pretty(
                &json!({"seconds": seconds, "runs": runs.iter().sum::<u64>(), "histogram": places}),
            )
        }
        Output::Text => render::latency(Style::of_stdout(), &runs),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}
