//! Two network namespaces with a veth pair between them, and a folder; all of it gone at the end.
//!
//! ```text
//! server: gslb0 10.53.0.1/24, 2001:db8:53::1/64; lo 10.77.0.1 to .8 (services)
//! client: cli0  10.53.0.2/24 and .3, 2001:db8:53::2/64; carries the program `pass`, which native XDP_TX on veth needs
//! ```

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use responder_testbed::{
    End, Namespace, Scratch, ebpf_object,
    veth::{attach_xdp, connect},
};

/// Measurements have the machine for themselves.
static QUIET: RwLock<()> = RwLock::new(());

/// The lock of a test, held while its bed stands.
#[expect(dead_code, reason = "held, not read")]
enum Guard {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

/// The two namespaces of one test.
pub struct Bed {
    server: Namespace,
    client: Namespace,
    scratch: Scratch,
    _guard: Guard,
}

impl Bed {
    /// A bed beside those of other tests.
    pub fn new() -> Self {
        Self::build(Guard::Shared(QUIET.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// A bed for a measurement: no other test runs meanwhile.
    pub fn alone() -> Self {
        Self::build(Guard::Alone(QUIET.write().unwrap_or_else(PoisonError::into_inner)))
    }

    fn build(guard: Guard) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "the end-to-end tests need root for network namespaces and XDP: run `sudo cargo xtask test`"
        );
        let made = || {
            let scratch = Scratch::new("e2e")?;
            Ok::<_, responder_testbed::TestbedError>((Namespace::new()?, Namespace::new()?, scratch))
        };
        let (server, client, scratch) = made().unwrap_or_else(|error| panic!("{error}"));
        // A daemon without root looks in here too.
        fs::set_permissions(scratch.folder(), Permissions::from_mode(0o755)).unwrap();
        let bed = Self { server, client, scratch, _guard: guard };
        bed.wire_pair();
        for last in 1..=8 {
            bed.server.ip(&format!("address add 10.77.0.{last}/32 dev lo")).unwrap();
        }
        bed
    }

    /// Makes the veth pair; also again, after one end was deleted.
    pub fn wire_pair(&self) {
        self.wire_pair_as("gslb0");
    }

    /// Likewise, under another name at the responder's end.
    pub fn wire_pair_as(&self, name: &str) {
        let server = ["10.53.0.1/24", "2001:db8:53::1/64"];
        let client = ["10.53.0.2/24", "10.53.0.3/24", "2001:db8:53::2/64"];
        let done = connect(
            End { namespace: &self.server, interface: name, addresses: &server },
            End { namespace: &self.client, interface: "cli0", addresses: &client },
        )
        .and_then(|()| attach_xdp(&self.client, "cli0", &ebpf_object("pass")));
        done.unwrap_or_else(|error| panic!("{error}; `cargo xtask setup` installs what is missing"));
    }

    /// Files of this test.
    pub fn folder(&self) -> &Path {
        self.scratch.folder()
    }

    /// `xdp.pin_path` of this test.
    pub fn pins(&self) -> &Path {
        self.scratch.pins()
    }

    /// `server.control_socket` of this test.
    pub fn socket(&self) -> PathBuf {
        self.folder().join("run/control.sock")
    }

    /// Writes a file, whole or not at all.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder().join(name);
        let draft = self.folder().join(format!("{name}.draft"));
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, &path).unwrap();
        path
    }

    /// Where the responder lives.
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// Where the clients live.
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The control socket of a second daemon, in the clients' namespace.
    pub fn second_socket(&self) -> PathBuf {
        self.folder().join("second/control.sock")
    }

    /// Runs something where the responder lives. Sockets made by it stay there.
    pub fn in_server<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.server.run(run).expect("the server's namespace")
    }

    /// Runs something where the clients live.
    pub fn in_client<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        self.client.run(run).expect("the client's namespace")
    }

    /// Runs `ip` where the responder lives; it must succeed.
    pub fn ip(&self, line: &str) -> String {
        self.server.ip(line).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Likewise where the clients live.
    pub fn client_ip(&self, line: &str) -> String {
        self.client.ip(line).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Puts the foreign program `pass` on the responder's interface.
    pub fn occupy(&self) {
        self.occupy_as("gslb0");
    }

    /// Likewise, on an interface of this name.
    pub fn occupy_as(&self, name: &str) {
        attach_xdp(&self.server, name, &ebpf_object("pass")).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs a tool where the clients live; it must succeed.
    pub fn client_tool(&self, program: &str, args: &[&str]) -> String {
        self.client
            .output(program, args)
            .unwrap_or_else(|error| panic!("{error}; `cargo xtask setup` installs what is missing"))
    }
}

/// Runs a program, however it ends.
pub fn tool(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"))
}
