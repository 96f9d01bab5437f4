//! `responderctl`: shows and steers a running `responderd`.

use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use clap::CommandFactory;
use responder_user::control::{
    Command, Refusal,
    cli::{Action, Cli, Output},
    client::{Client, ClientError, News},
    command::{SessionAction, ShowKind},
    events::rfc3339,
    render::{self, Style},
};
use serde_json::Value;

#[path = "responderctl/import.rs"]
mod import;
#[path = "responderctl/look.rs"]
mod look;
#[path = "responderctl/typed.rs"]
mod typed;

/// Why the exit code is 1.
enum Failure {
    /// To be told.
    Say(String, Vec<String>),
    /// Told already, on standard output.
    Told,
    /// Nobody reads our output any more: `responderctl … | head`.
    Unread,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(Refusal { message, details }) => Self::Say(message, details),
            other => Self::Say(other.to_string(), Vec::new()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Unread } else { Self::say(&error) }
    }
}

impl Failure {
    fn say(what: &dyn Display) -> Self {
        Self::Say(format!("cannot write: {what}"), Vec::new())
    }
}

fn main() -> ExitCode {
    let cli = Cli::of(std::env::args_os());
    match run(&cli) {
        Ok(()) | Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(Failure::Told) => ExitCode::FAILURE,
        Err(Failure::Say(message, details)) => {
            eprintln!("responderctl: {}", render::clean(&message));
            for detail in details {
                eprintln!("{}", render::clean(&detail));
            }
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    let Some(command) = cli.action.command() else { return aside(cli) };
    let mut client = Client::connect(&cli.socket)?;
    match cli.action {
        Action::Events { follow: true, .. } => follow(cli, &mut client, &command),
        Action::Stats { watch: true, .. } => watch(cli, &mut client, &command),
        Action::Stats { latency: true, seconds, .. } => look::latency(cli, &mut client, seconds),
        Action::Stats { top: Some(most), seconds, .. } => {
            look::top(cli, &mut client, &command, most, seconds)
        }
        Action::Ns { .. } => typed::ns(cli, &mut client, &command),
        Action::Capture { .. } => look::capture(cli, &mut client, &command),
        _ => once(cli, &mut client, &command),
    }
}

/// What needs no daemon.
fn aside(cli: &Cli) -> Result<(), Failure> {
    match &cli.action {
        Action::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "responderctl", &mut out);
            io::stdout().write_all(&out)?;
        }
        Action::Import { file, to } => import::import(cli.output, file, to.as_deref())?,
        Action::Check { file } => {
            let report = responder_user::engine::check(file);
            let text = match cli.output {
                Output::Json => render::pretty(&serde_json::to_value(&report).map_err(|e| Failure::say(&e))?),
                Output::Text => render::check(&report),
            };
            io::stdout().write_all(text.as_bytes())?;
            if !report.errors.is_empty() {
                return Err(Failure::Told);
            }
        }
        _ => {}
    }
    Ok(())
}

fn once(cli: &Cli, client: &mut Client, command: &Command) -> Result<(), Failure> {
    let value = client.call(command)?;
    let text = match cli.output {
        Output::Json => render::pretty(&value),
        Output::Text => text(&cli.action, &value),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn text(action: &Action, value: &Value) -> String {
    let style = Style::of_stdout();
    match action {
        Action::Status => render::status(value),
        Action::Show { kind, .. } => render::show(style, *kind, value),
        Action::Session { action: SessionAction::List, .. } => render::show(style, ShowKind::Session, value),
        Action::Explain { .. } => render::explain(style, value),
        Action::Events { .. } => {
            value.as_array().into_iter().flatten().map(|e| render::event(style, e)).collect()
        }
        Action::Stats { .. } => render::stats(style, value),
        Action::Diff => render::diff(value),
        Action::Ns { .. } => render::ns(value),
        Action::Capture { .. }
        | Action::Enable { .. }
        | Action::Disable { .. }
        | Action::Force { .. }
        | Action::Load { .. }
        | Action::Report { .. }
        | Action::Set { .. }
        | Action::Add { .. }
        | Action::Rm { .. }
        | Action::Save { .. }
        | Action::Session { .. }
        | Action::Reload
        | Action::Check { .. }
        | Action::Import { .. }
        | Action::Completions { .. } => render::done(value),
    }
}

/// Events as they come; JSON is one object a line. A gap goes to standard error.
fn follow(cli: &Cli, client: &mut Client, command: &Command) -> Result<(), Failure> {
    client.follow(command)?;
    let style = Style::of_stdout();
    let mut out = io::stdout();
    loop {
        match client.news()? {
            News::Missed(count) => eprintln!("responderctl: {}", render::missed(count)),
            News::Sample(_) | News::End(_) => {}
            News::Event(event) => {
                let value = serde_json::to_value(event).map_err(|e| Failure::say(&e))?;
                let line = match cli.output {
                    Output::Json => format!("{value}\n"),
                    Output::Text => render::event(style, &value),
                };
                out.write_all(line.as_bytes())?;
                out.flush()?;
            }
        }
    }
}

/// Rates every second; JSON is one object a line.
fn watch(cli: &Cli, client: &mut Client, command: &Command) -> Result<(), Failure> {
    let mut watch = render::Watch::default();
    let mut out = io::stdout();
    loop {
        let totals = client.call(command)?;
        if let Some(rates) = watch.rates(Instant::now(), totals) {
            let text = match cli.output {
                Output::Json => format!("{rates}\n"),
                Output::Text => watch.text(Style::of_stdout(), &rfc3339(SystemTime::now()), &rates),
            };
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}
