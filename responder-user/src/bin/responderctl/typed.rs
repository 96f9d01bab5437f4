//! `ns`: commands of NetScaler, one or a file of them.

use std::{
    fs,
    io::{self, Write},
};

use responder_user::control::{
    Command, Refusal,
    cli::{Action, Cli, Output},
    client::{Client, ClientError},
    render,
};
use serde_json::Value;

use crate::Failure;

/// `ns 'COMMAND'`, `ns --file F`
pub fn ns(cli: &Cli, client: &mut Client, command: &Command) -> Result<(), Failure> {
    let Action::Ns { file: Some(path), .. } = &cli.action else {
        return if one(cli, client, command, "")? { Ok(()) } else { Err(Failure::Told) };
    };
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::Say(format!("{}: {error}", path.display()), Vec::new()))?;
    let mut all_done = true;
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        if cli.output == Output::Text {
            writeln!(io::stdout(), "> {}", render::clean(line.trim()))?;
        }
        let place = format!("{}:{}: ", path.display(), i + 1);
        all_done &= one(cli, client, &Command::Ns { line: line.to_owned() }, &place)?;
    }
    if all_done { Ok(()) } else { Err(Failure::Told) }
}

/// One command. False: the daemon refused it, and that was said.
fn one(cli: &Cli, client: &mut Client, command: &Command, place: &str) -> Result<bool, Failure> {
    let value: Value = match client.call(command) {
        Ok(value) => value,
        Err(ClientError::Refused(Refusal { message, details })) => {
            // What came before it stands before it, where both go to one place.
            io::stdout().flush()?;
            eprintln!("{}ERROR: {}", render::clean(place), render::clean(&message));
            for detail in details {
                eprintln!("{}", render::clean(&detail));
            }
            return Ok(false);
        }
        Err(other) => return Err(other.into()),
    };
    let text = match cli.output {
        Output::Json => render::pretty(&value),
        Output::Text => render::ns(&value),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(true)
}
