//! Secrets of server cookies (RFC 9018): in a file of the state folder, so that a restart invalidates no cookie.
//!
//! The file has one line: the version of its form, the second in which the secret was made, the secret in force and the
//! one before, in hexadecimal digits.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use responder_common::cookie::Secrets;

/// A secret makes cookies for so long. The one before stays good for as long again, and a cookie lives for an hour.
pub const LIFETIME: Duration = Duration::from_hours(24);

const NAME: &str = "cookie-secrets";
const VERSION: &str = "v1";

/// Where there is no state folder to write to: good until the daemon ends.
static OF_THIS_PROCESS: OnceLock<Secrets> = OnceLock::new();

/// Why the file of secrets is of no use.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// It cannot be read or written.
    #[error("cookie secrets: {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is no file of secrets.
    #[error(
        "cookie secrets: {}: is not a line of `v1`, a number of seconds and two secrets of 32 hexadecimal digits",
        path.display()
    )]
    Form {
        /// The file.
        path: PathBuf,
    },
}

/// The secrets that hold now: from the file, made anew where it is missing, rotated where they are old. A file that cannot
/// be read or written costs the memory of cookies over a restart, not the cookies.
pub fn current(state_dir: &Path) -> Secrets {
    match from_file(state_dir, SystemTime::now()) {
        Ok(secrets) => secrets,
        Err(error) => {
            let mut is_first = false;
            let secrets = *OF_THIS_PROCESS.get_or_init(|| {
                is_first = true;
                let secret = random().unwrap_or_else(|_| [unpredictable(), unpredictable()]);
                Secrets { current: secret, previous: secret }
            });
            if is_first {
                tracing::warn!(%error, "cookies will not outlive this process");
            }
            secrets
        }
    }
}

/// As [`current`], at a time.
pub fn from_file(state_dir: &Path, now: SystemTime) -> Result<Secrets, SecretsError> {
    let path = state_dir.join(NAME);
    let failed = |source| SecretsError::File { path: path.clone(), source };
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let kept = match fs::read_to_string(&path) {
        Ok(text) => {
            let parsed = parse(&text);
            if parsed.is_none() {
                // Half written by a full disk, most likely: what it held is lost, what comes need not be.
                let error = SecretsError::Form { path: path.clone() };
                tracing::warn!(%error, "making new ones: cookies of before are not good any more");
            }
            parsed
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    match kept {
        // A clock that was set back makes a secret no older.
        Some((made, secrets)) if now.saturating_sub(made) < LIFETIME.as_secs() => return Ok(secrets),
        _ => {}
    }
    let secret = random().map_err(failed)?;
    let previous = kept.map_or(secret, |(_, secrets)| secrets.current);
    let secrets = Secrets { current: secret, previous };
    store(state_dir, &path, now, &secrets).map_err(failed)?;
    Ok(secrets)
}

fn random() -> io::Result<[u64; 2]> {
    let mut octets = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(bytemuck::cast(octets))
}

/// From the keys that the standard library draws for its hash maps.
fn unpredictable() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(SystemTime::now())
}

fn parse(text: &str) -> Option<(u64, Secrets)> {
    let mut words = text.split_ascii_whitespace();
    if words.next()? != VERSION {
        return None;
    }
    let made = words.next()?.parse().ok()?;
    let (current, previous) = (secret(words.next()?)?, secret(words.next()?)?);
    words.next().is_none().then_some((made, Secrets { current, previous }))
}

fn secret(digits: &str) -> Option<[u64; 2]> {
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    // The order of the octets, as RFC 9018 writes secrets.
    let half = |digits: &str| u64::from_str_radix(digits, 16).ok().map(u64::swap_bytes);
    Some([half(&digits[..16])?, half(&digits[16..])?])
}

fn store(state_dir: &Path, path: &Path, now: u64, secrets: &Secrets) -> io::Result<()> {
    if !state_dir.exists() {
        fs::create_dir_all(state_dir)?;
        fs::set_permissions(state_dir, Permissions::from_mode(0o700))?;
    }
    let digits = |secret: [u64; 2]| format!("{:016x}{:016x}", secret[0].swap_bytes(), secret[1].swap_bytes());
    let text = format!("{VERSION} {now} {} {}\n", digits(secrets.current), digits(secrets.previous));
    let next = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&next, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_outlive_a_restart_and_rotate_without_a_gap() {
        let folder = tempfile::tempdir().unwrap();
        let at = |hours: u64| UNIX_EPOCH + Duration::from_hours(500_000 + hours);
        let first = from_file(folder.path(), at(0)).unwrap();
        assert_eq!(first.current, first.previous);
        assert_eq!(from_file(folder.path(), at(23)).unwrap(), first);
        let second = from_file(folder.path(), at(24)).unwrap();
        assert_eq!(second.previous, first.current);
        assert_ne!(second.current, first.current);
        // A clock that was set back rotates nothing.
        assert_eq!(from_file(folder.path(), at(0)).unwrap(), second);
        let mode = fs::metadata(folder.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "v2 1 0 0", "v1 x 0 0", "v1 1 00 00", "v1 1 00112233445566778899aabbccddeeff"] {
            fs::write(folder.path().join(NAME), text).unwrap();
            let made = from_file(folder.path(), UNIX_EPOCH).unwrap();
            assert_ne!(made.current, [0; 2]);
            assert_eq!(from_file(folder.path(), UNIX_EPOCH).unwrap(), made, "{text}");
        }
        // What cannot be a file of ours is an error, and costs the memory alone.
        let path = folder.path().join("other");
        fs::create_dir_all(path.join(NAME)).unwrap();
        assert!(matches!(from_file(&path, UNIX_EPOCH), Err(SecretsError::File { .. })));
    }

    #[test]
    fn digits_stand_in_the_order_of_rfc_9018() {
        let (made, secrets) =
            parse("v1 5 e5e973e5a6b2a43f48e7dc849e37bfcf 00000000000000010000000000000002\n").unwrap();
        assert_eq!(made, 5);
        assert_eq!(secrets.current[0].to_le_bytes(), [0xe5, 0xe9, 0x73, 0xe5, 0xa6, 0xb2, 0xa4, 0x3f]);
        assert_eq!(secrets.previous[1].to_le_bytes(), [0, 0, 0, 0, 0, 0, 0, 2]);
    }
}
