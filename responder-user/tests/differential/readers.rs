//! Readers of others: dnspython reads replies, tshark frames.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use pcap_file::{
    DataLink,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
};

/// Debian's Python, which has Debian's dnspython.
const PYTHON: &str = "/usr/bin/python3";

/// What is kept for them: some replies of every run.
#[derive(Default)]
pub struct Kept {
    /// Query and reply, messages.
    messages: Vec<(Vec<u8>, Vec<u8>)>,
    /// Replies of the program, frames.
    frames: Vec<Vec<u8>>,
}

impl Kept {
    /// Keeps a query and the reply of the program.
    pub fn frame(&mut self, query: &[u8], reply: &[u8], frame: &[u8]) {
        self.message(query, reply);
        self.frames.push(frame.to_vec());
    }

    /// Keeps a query and the reply of a worker.
    pub fn message(&mut self, query: &[u8], reply: &[u8]) {
        self.messages.push((query.to_vec(), reply.to_vec()));
    }

    /// What two threads kept.
    pub fn join(&mut self, other: Self) {
        self.messages.extend(other.messages);
        self.frames.extend(other.frames);
    }

    /// Lets them read.
    pub fn read(&self, what: &str, least: usize) {
        assert!(self.messages.len() >= least && !self.frames.is_empty(), "{} kept", self.messages.len());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        self.by_dnspython(&folder.join(format!("{what}.replies")), least);
        self.by_tshark(&folder.join(format!("{what}.pcap")));
    }

    fn by_dnspython(&self, path: &Path, least: usize) {
        let mut octets = Vec::new();
        for message in self.messages.iter().flat_map(|(query, reply)| [query, reply]) {
            octets.extend(u16::try_from(message.len()).expect("a message").to_be_bytes());
            octets.extend(message);
        }
        fs::write(path, octets).expect("a file of replies");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/read_replies.py");
        let mut python = Command::new(PYTHON);
        let said = ended("dnspython", python.arg(script).arg(path).arg(least.to_string()).output());
        println!("{}", said.trim_end());
    }

    fn by_tshark(&self, path: &Path) {
        let header = PcapHeader { datalink: DataLink::ETHERNET, ..PcapHeader::default() };
        let file = File::create(path).expect("a capture");
        let mut pcap = PcapWriter::with_header(file, header).expect("the head of a capture");
        for frame in &self.frames {
            let packet = PcapPacket::new(Duration::ZERO, frame.len() as u32, frame);
            pcap.write_packet(&packet).expect("a frame");
        }
        drop(pcap);
        let tshark = |filter: &str| {
            let checks = ["ip.check_checksum:TRUE", "udp.check_checksum:TRUE"];
            let mut tshark = Command::new("tshark");
            tshark.args(["-n", "-r"]).arg(path);
            for check in checks {
                tshark.args(["-o", check]);
            }
            ended("tshark", tshark.args(["-Y", filter]).output())
        };
        let bad = tshark(
            "_ws.malformed || _ws.short || ip.checksum.status == \"Bad\" || udp.checksum.status == \"Bad\" \
             || !(dns.flags.response == 1)",
        );
        assert!(bad.is_empty(), "tshark finds fault with replies in {}:\n{bad}", path.display());
        println!("{:8} frames read by tshark, none malformed", self.frames.len());
    }
}

/// What a reader said; it must have ended well.
fn ended(what: &str, output: std::io::Result<Output>) -> String {
    let how = "`cargo xtask setup` installs it";
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}; {how}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} ({how} where it is missing): {said}{complaint}");
    said
}
