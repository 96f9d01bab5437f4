//! Every format with a sample, what is refused, and a database made here.

use std::{net::IpAddr, path::Path};

use proptest::prelude::*;

use super::*;
use crate::model::location::Place;

/// Reads one file of a format; None: whatever it seems to be.
fn read(name: &str, bytes: &[u8], format: Option<&str>) -> Result<(Arc<FileTable>, Vec<String>), String> {
    read_all(&[(name, bytes, format)], true)
}

fn read_all(
    files: &[(&str, &[u8], Option<&str>)],
    is_geographic: bool,
) -> Result<(Arc<FileTable>, Vec<String>), String> {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("responder.toml");
    let notes = Notes::new(&config, "");
    let sources: Vec<Source> = files
        .iter()
        .map(|(name, bytes, format)| {
            fs::write(folder.path().join(name), bytes).unwrap();
            let format = format.map(|f| FORMATS.iter().find(|(name, _)| *name == f).expect("a format").1);
            Source { path: At { value: (*name).to_owned(), at: 0 }, format }
        })
        .collect();
    let table = load(&notes, &sources, is_geographic);
    let (problems, warnings) = notes.finish();
    let short = |problem: &Problem| {
        let name = problem.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{name}:{}:{}: {}", problem.line, problem.column, problem.text)
    };
    if problems.is_empty() {
        Ok((table, warnings.iter().map(|w| w.text.clone()).collect()))
    } else {
        Err(problems.iter().map(short).collect::<Vec<_>>().join("\n"))
    }
}

fn told(place: Option<Place<'_>>) -> String {
    place.map_or_else(
        || "-".to_owned(),
        |place| {
            let point = place.coordinates.map_or_else(String::new, |(lon, lat)| format!(" at {lon} {lat}"));
            format!("{}{point}", place.location)
        },
    )
}

fn at(table: &FileTable, address: &str) -> String {
    told(table.find(address.parse().unwrap()))
}

const NETSCALER: &str = "NSGEO1.0\r\nContext=custom\r\nQualifier1=Continent\r\nQualifier2=Country\r\nStart\r\n\
    1.0.0.0,1.0.0.255,OC,AU,New South Wales,,Sydney,,151,-33\r\n\
    # a note\r\n\r\n64.12.96.1, 64.12.127.254, aol\r\n";

#[test]
fn every_text_format_has_its_columns() {
    // format, rows, address, place
    let table = [
        ("netscaler", NETSCALER, "1.0.0.7", "OC.AU.\"New South Wales\".*.Sydney at 151 -33"),
        ("netscaler", NETSCALER, "64.12.100.1", "aol"),
        (
            "netscaler6",
            "NSGEO1.0\nStart\n2001:db8::,2001:db8::ffff,EU,GB,,London\n",
            "2001:db8::1",
            "EU.GB.*.London",
        ),
        ("ip-country", "\"16777216\",\"16777471\",\"AU\",\"AUSTRALIA\"\n", "1.0.0.9", "*.AU"),
        (
            "ip-country-isp",
            "16777216,16777471,\"AU\",\"AUSTRALIA\",\"Some, Net\"\n",
            "1.0.0.9",
            "*.AU.*.*.\"Some, Net\"",
        ),
        (
            "ip-country-region-city",
            "\"16777216\",\"16777471\",\"AU\",\"AUSTRALIA\",\"QUEENSLAND\",\"BRISBANE\"",
            "1.0.0.9",
            "*.AU.QUEENSLAND.BRISBANE",
        ),
        (
            "ip-country-region-city-isp",
            "\"16777216\",\"16777471\",\"AU\",\"AUSTRALIA\",\"-\",\"BRISBANE\",\"NET\"",
            "1.0.0.9",
            "*.AU.*.BRISBANE.NET",
        ),
        (
            "geoip-country",
            "\"1.0.0.0\",\"1.0.0.255\",\"16777216\",\"16777471\",\"AU\",\"Australia\"",
            "1.0.0.9",
            "*.AU",
        ),
        (
            "geoip-country6",
            "\"2001:200::\", \"2001:200:ffff:ffff:ffff:ffff:ffff:ffff\", \"42540528726795050063891204319802818560\", \
             \"42540528806023212578155541913346768895\", \"JP\", \"Japan\"",
            "2001:200::7",
            "*.JP",
        ),
        ("geoip-region", "1.0.0.0,1.0.0.255,16777216,16777471,US,CA", "1.0.0.9", "*.US.CA"),
        (
            "geoip-city",
            "16777216,16777471,US,CA,\"Mountain View\",94043,37.4192,-122.0574,807,650",
            "1.0.0.9",
            "*.US.CA.\"Mountain View\" at -122.0574 37.4192",
        ),
        ("geoip-city", "1.0.0.0,1.0.0.255,US,,,,,", "1.0.0.9", "*.US"),
        ("geoip-country-org", "1.0.0.0,1.0.0.255,1,2,US,\"United States\",Org", "1.0.0.9", "*.US.*.*.*.Org"),
        ("geoip-country-isp", "1.0.0.0,1.0.0.255,1,2,US,\"United States\",Isp", "1.0.0.9", "*.US.*.*.Isp"),
        (
            "geoip-city-isp-org",
            "1.0.0.0,1.0.0.255,US,CA,Town,1,37.5,-122.5,8,9,\"The \"\"Isp\"\"\",Org",
            "1.0.0.9",
            "*.US.CA.Town.\"The \"Isp\"\".Org at -122.5 37.5",
        ),
    ];
    for (format, rows, address, place) in table {
        let (found, odd) =
            read("places.csv", rows.as_bytes(), Some(format)).unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(at(&found, address), place, "{format}");
        assert_eq!(odd, Vec::<String>::new(), "{format}");
    }
    assert_eq!(FORMATS.len(), 14);
}

#[test]
fn formats_are_guessed_by_ending_and_first_row() {
    assert_eq!(
        at(&read("a.csv", NETSCALER.as_bytes(), None).unwrap().0, "1.0.0.1"),
        "OC.AU.\"New South Wales\".*.Sydney at 151 -33"
    );
    let six = "NSGEO1.0\nStart\n2001:db8::,2001:db8::ff,EU,GB\n";
    assert_eq!(at(&read("a", six.as_bytes(), None).unwrap().0, "2001:db8::1"), "EU.GB");
    let error = read("a.mmdb", b"nothing", None).unwrap_err();
    assert!(error.starts_with("a.mmdb:1:1: is no MaxMind database"), "{error}");
}

#[test]
fn files_that_are_not_of_their_format_are_refused_with_the_line() {
    let rows = [
        (
            "netscaler",
            "1.0.0.0,1.0.0.255,OC\n",
            "x:1:1: a file of format netscaler begins with NSGEO1.0; is it of another format?",
        ),
        ("netscaler", "NSGEO1.0\nContext=custom\n", "x:1:1: has no line Start, behind which the rows begin"),
        ("netscaler", "NSGEO1.0\nhello\nStart\n", "x:2:1: expected KEY=VALUE or Start, found \"hello\""),
        (
            "netscaler",
            "NSGEO1.0\nStart\n1.0.0.9,1.0.0.1,EU\n",
            "x:3:1: the range ends before it begins: 1.0.0.9 to 1.0.0.1",
        ),
        ("netscaler", "NSGEO1.0\nStart\n1.0.0.0\n", "x:3:1: a row needs two addresses and a place"),
        ("netscaler", "NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,,\n", "x:3:17: names no place"),
        (
            "netscaler",
            "NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,a,b,c,d,e,f,1,2,3\n",
            "x:3:33: more than the 10 columns of format netscaler",
        ),
        (
            "netscaler",
            "NSGEO1.0\nStart\n2001:db8::,2001:db8::1,EU\n",
            "x:3:1: 2001:db8:: is no address of IPv4, of which format netscaler is",
        ),
        (
            "netscaler6",
            "NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,EU\n",
            "x:3:1: 1.0.0.0 is no address of IPv6, of which format netscaler6 is",
        ),
        (
            "netscaler",
            "NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,EU,GB,,,,,-33,151\n",
            "x:3:31: latitude 151 is beyond 90; do longitude and latitude stand in each other's place?",
        ),
        (
            "netscaler",
            "NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,EU,GB,,,,,200,1\n",
            "x:3:27: longitude 200 is beyond 180",
        ),
        (
            "netscaler",
            "NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,EU,GB,,,,,east,1\n",
            "x:3:27: \"east\" is no longitude",
        ),
        (
            "geoip-country",
            "1.0.0.0,1.0.0.255,OC,AU,x,y\n",
            "x:1:25: \"x\" is no country code; is the file of format geoip-country?",
        ),
        (
            "geoip-country",
            "1.0.0.0,1.0.0.255,1,2,AU\n",
            "x:1:1: 5 columns are fewer than the 6 of format geoip-country",
        ),
        (
            "ip-country",
            "\"a\",\"b\",\"AU\",\"x\"\n",
            "x:1:1: \"a\" is not an address; is it of format ip-country?",
        ),
        ("ip-country", "\"1,2,AU,x\n", "x:1:1: this quote is not closed"),
        ("ip-country", "\"1\"x,2,AU,x\n", "x:1:4: expected a comma behind the quoted field"),
    ];
    for (format, text, message) in rows {
        let got = read("x", text.as_bytes(), Some(format)).map(|_| ()).unwrap_err();
        assert_eq!(got, message, "{format}: {text}");
    }
    let many = "x\n".repeat(500);
    let error = read("x", many.as_bytes(), Some("ip-country")).unwrap_err();
    assert_eq!(error.lines().count(), 101);
    assert!(error.ends_with("400 lines behind this one have problems, too"), "{error}");
    let missing = Notes::new(Path::new("/nowhere/responder.toml"), "");
    load(&missing, &[Source { path: At { value: "x".to_owned(), at: 0 }, format: None }], true);
    assert!(missing.finish().0[0].text.starts_with("location.files: \"x\" cannot be read: "));
}

#[test]
fn what_will_surprise_is_said() {
    let shifted = "NSGEO1.0\nQualifier1=Continent\nStart\n2001:db8::,2001:db8::1,GB,London\n2001:db8::2,2001:db8::3,EU,GB\n";
    let (_, odd) = read("x", shifted.as_bytes(), Some("netscaler6")).unwrap();
    assert!(
        odd[0].contains("1 places have a country where the file says that the continent stands"),
        "{odd:?}"
    );
    let long = format!("NSGEO1.0\nStart\n1.0.0.0,1.0.0.1,EU,{}\n", "x".repeat(40));
    let (table, odd) = read("x", long.as_bytes(), Some("netscaler")).unwrap();
    assert_eq!(at(&table, "1.0.0.0"), format!("EU.{}", "x".repeat(31)));
    assert!(odd[0].contains("1 names of places are cut to 31 characters"), "{odd:?}");
    let latin = b"1,2,DE,\"x\",\"Bayern\",\"M\xfcnchen\"\n";
    assert_eq!(
        at(&read("x", latin, Some("ip-country-region-city")).unwrap().0, "0.0.0.1"),
        "*.DE.Bayern.München"
    );
}

#[test]
fn the_first_file_then_the_narrowest_row_then_the_last() {
    let rows = |text: &str| format!("NSGEO1.0\nStart\n{text}");
    let one = rows("10.0.0.0,10.0.0.255,wide\n10.0.0.16,10.0.0.31,narrow\n10.0.0.16,10.0.0.31,newest\n");
    let two = rows("10.0.0.0,10.255.255.255,second\n");
    let (table, _) = read_all(&[("a", one.as_bytes(), None), ("b", two.as_bytes(), None)], true).unwrap();
    let places = [
        "10.0.0.0",
        "10.0.0.16",
        "10.0.0.31",
        "10.0.0.32",
        "10.0.0.255",
        "10.0.1.0",
        "10.255.255.255",
        "11.0.0.0",
    ];
    let got: Vec<String> = places.iter().map(|a| at(&table, a)).collect();
    assert_eq!(got, ["wide", "newest", "newest", "wide", "wide", "second", "second", "-"]);
    assert_eq!(table.v4.len(), 4);
}

#[test]
fn a_country_brings_its_continent_where_some_row_names_both() {
    let both = "NSGEO1.0\nStart\n1.0.0.0,1.0.0.255,OC,AU\n";
    let alone = "2.0.0.0,2.0.0.255,1,2,au,Australia\n3.0.0.0,3.0.0.255,1,2,JP,Japan\n";
    let files: [(&str, &[u8], Option<&str>); 2] =
        [("a", both.as_bytes(), None), ("b", alone.as_bytes(), Some("geoip-country"))];
    let (table, _) = read_all(&files, true).unwrap();
    assert_eq!((at(&table, "2.0.0.1").as_str(), at(&table, "3.0.0.1").as_str()), ("OC.au", "*.JP"));
    let (table, _) = read_all(&files, false).unwrap();
    assert_eq!(at(&table, "2.0.0.1"), "*.au", "in custom context nobody knows what a qualifier is");
}

/// Writes MaxMind databases: a tree of 24-bit records over data that is a list of maps.
#[derive(Default)]
struct Maker {
    /// Pairs of: 0 nothing, positive a node, negative a record.
    nodes: Vec<[i64; 2]>,
    data: Vec<u8>,
    offsets: Vec<usize>,
}

/// A value of a database.
enum Datum<'a> {
    Text(&'a str),
    Double(f64),
    Short(u16),
    Number(u32),
    Long(u64),
    List(Vec<Datum<'a>>),
    Map(Vec<(&'a str, Datum<'a>)>),
}

impl Datum<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        // Types above 7 stand in a second octet; sizes from 29 on in a second or third.
        match self {
            Self::Text(text) => {
                match text.len() as u8 {
                    short @ 0..29 => out.push(2 << 5 | short),
                    long => out.extend([0b010_11101, long - 29]),
                }
                out.extend(text.as_bytes());
            }
            Self::Double(number) => {
                out.push(3 << 5 | 8);
                out.extend(number.to_be_bytes());
            }
            Self::Number(number) => {
                out.push(6 << 5 | 4);
                out.extend(number.to_be_bytes());
            }
            Self::Short(number) => {
                out.push(5 << 5 | 2);
                out.extend(number.to_be_bytes());
            }
            Self::Long(number) => {
                out.extend([8, 9 - 7]);
                out.extend(number.to_be_bytes());
            }
            Self::List(list) => {
                out.extend([list.len() as u8, 11 - 7]);
                for one in list {
                    one.write(out);
                }
            }
            Self::Map(map) => {
                out.push(7 << 5 | map.len() as u8);
                for (key, value) in map {
                    Datum::Text(key).write(out);
                    value.write(out);
                }
            }
        }
    }
}

impl Maker {
    fn record(&mut self, value: &Datum<'_>) -> i64 {
        self.offsets.push(self.data.len());
        value.write(&mut self.data);
        -(self.offsets.len() as i64)
    }

    /// Networks of a tree of IPv6; IPv4 ones are given as the last 32 bits of it.
    fn put(&mut self, net: &str, record: i64) {
        let net: ipnet::IpNet = net.parse().unwrap();
        let (bits, len) = match net {
            ipnet::IpNet::V4(n) => (u128::from(n.addr().to_bits()), n.prefix_len() + 96),
            ipnet::IpNet::V6(n) => (n.addr().to_bits(), n.prefix_len()),
        };
        if self.nodes.is_empty() {
            self.nodes.push([0, 0]);
        }
        let mut node = 0;
        for i in 0..len {
            let side = (bits >> (127 - i) & 1) as usize;
            if i + 1 == len {
                self.nodes[node][side] = record;
            } else {
                if self.nodes[node][side] <= 0 {
                    self.nodes.push([0, 0]);
                    self.nodes[node][side] = self.nodes.len() as i64 - 1;
                }
                node = self.nodes[node][side] as usize;
            }
        }
    }

    fn finish(self) -> Vec<u8> {
        let count = self.nodes.len();
        let mut out = Vec::new();
        for side in self.nodes.iter().flatten() {
            let value = match side {
                0 => count,
                record if *record < 0 => count + 16 + self.offsets[(-record - 1) as usize],
                node => *node as usize,
            };
            out.extend(&(value as u32).to_be_bytes()[1..]);
        }
        out.extend([0; 16]);
        out.extend(&self.data);
        out.extend(b"\xab\xcd\xefMaxMind.com");
        let meta = Datum::Map(vec![
            ("binary_format_major_version", Datum::Short(2)),
            ("binary_format_minor_version", Datum::Short(0)),
            ("build_epoch", Datum::Long(1)),
            ("database_type", Datum::Text("Test")),
            ("description", Datum::Map(vec![("en", Datum::Text("made here"))])),
            ("ip_version", Datum::Short(6)),
            ("languages", Datum::List(vec![])),
            ("node_count", Datum::Number(count as u32)),
            ("record_size", Datum::Short(24)),
        ]);
        meta.write(&mut out);
        out
    }
}

fn database() -> Vec<u8> {
    let english = |name| Datum::Map(vec![("names", Datum::Map(vec![("en", Datum::Text(name))]))]);
    let coded = |key, code| Datum::Map(vec![(key, Datum::Text(code))]);
    let mut maker = Maker::default();
    let london = maker.record(&Datum::Map(vec![
        ("continent", coded("code", "EU")),
        ("country", coded("iso_code", "GB")),
        ("subdivisions", Datum::List(vec![english("England")])),
        ("city", english("London")),
        ("location", Datum::Map(vec![("latitude", Datum::Double(51.5)), ("longitude", Datum::Double(-0.1))])),
        ("postal", Datum::Map(vec![("code", Datum::Text("OX1"))])),
    ]));
    let japan = maker.record(&Datum::Map(vec![
        ("continent", coded("code", "AS")),
        ("registered_country", coded("iso_code", "JP")),
        ("isp", Datum::Text("Isp")),
        ("autonomous_system_organization", Datum::Text("Org")),
    ]));
    let nowhere = maker.record(&Datum::Map(vec![("traits", Datum::Map(vec![]))]));
    maker.put("81.2.69.160/27", london);
    maker.put("81.2.69.192/26", london);
    maker.put("203.0.113.0/24", nowhere);
    maker.put("2001:218::/32", japan);
    maker.finish()
}

#[test]
fn maxmind_databases_are_read_whole() {
    let (table, odd) = read("city.mmdb", &database(), None).unwrap();
    assert_eq!(odd, Vec::<String>::new());
    assert_eq!(at(&table, "81.2.69.160"), "EU.GB.England.London at -0.1 51.5");
    assert_eq!(at(&table, "81.2.69.255"), "EU.GB.England.London at -0.1 51.5");
    assert_eq!(at(&table, "81.2.69.159"), "-");
    assert_eq!(at(&table, "203.0.113.7"), "-", "a record that names no place");
    assert_eq!(at(&table, "2001:218::1"), "AS.JP.*.*.Isp.Org");
    assert_eq!(
        (table.v4.len(), table.v6.len(), table.places.len()),
        (1, 1, 2),
        "neighbours of one place are joined"
    );
}

#[test]
fn a_damaged_database_is_refused_or_says_what_it_said() {
    let whole = database();
    let before = read("x.mmdb", &whole, None).unwrap().0;
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        if let Ok((after, _)) = read("x.mmdb", &damaged, None) {
            assert!(after.len() <= 1000, "octet {at}");
        }
    }
    for len in (0..whole.len()).step_by(7) {
        let cut = read("x.mmdb", &whole[..len], None);
        assert!(cut.is_err() || cut.unwrap().0 == before, "cut at {len}");
    }
}

#[test]
fn many_rows_take_seconds() {
    let mut text = "NSGEO1.0\nStart\n".to_owned();
    for i in 0..200_000_u32 {
        let first = std::net::Ipv4Addr::from_bits(i << 8);
        let last = std::net::Ipv4Addr::from_bits(i << 8 | 0xff);
        let _ = std::fmt::Write::write_fmt(
            &mut text,
            format_args!("{first},{last},EU,C{},R{}\n", i % 97, i % 5000),
        );
    }
    let started = std::time::Instant::now();
    let (table, _) = read("big.csv", text.as_bytes(), None).unwrap();
    let took = started.elapsed();
    println!("200,000 rows in {took:?}");
    assert_eq!(table.v4.len(), 200_000);
    assert!(took.as_secs() < 30, "{took:?} in a debug build");
}

proptest! {
    #[test]
    fn no_file_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), format in 0..FORMATS.len()) {
        let _ = read("x", &bytes, Some(FORMATS[format].0));
        let tagged = [b"NSGEO1.0\nStart\n".as_slice(), &bytes].concat();
        let _ = read("x", &tagged, Some("netscaler"));
    }

    /// The table says of every address what the rows say, searched one by one.
    #[test]
    fn rows_are_cut_so_that_the_right_one_counts(
        rows in proptest::collection::vec((0..200_u32, 0..60_u32, 1..3_u32), 0..12), address in 0..260_u32,
    ) {
        let mut builder = Builder::default();
        let mut best: Option<(Rank, u32)> = None;
        let mut file = 0;
        for (i, (first, width, step)) in rows.iter().enumerate() {
            if *step == 2 {
                builder.next_file();
                file += 1;
            }
            let place = OwnedPlaceOf(i as u32 % 4).place();
            let number = builder.place(place);
            let v4 = |n: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(n));
            builder.row(v4(*first), v4(first + width), number);
            let rank = (file, *width, std::cmp::Reverse(i));
            if (*first..=first + width).contains(&address) && best.is_none_or(|(known, _)| rank < known) {
                best = Some((rank, i as u32 % 4));
            }
        }
        let table = builder.finish(true);
        let expected = best.map(|(_, i)| OwnedPlaceOf(i).place().location.to_string());
        let found = table.find(std::net::Ipv4Addr::from_bits(address).into()).map(|p| p.location.to_string());
        prop_assert_eq!(found, expected);
        prop_assert!(table.v4.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }
}

/// Which of the rows that hold an address counts: the smallest.
type Rank = (u32, u32, std::cmp::Reverse<usize>);

/// A place with a number for a name.
struct OwnedPlaceOf(u32);

impl OwnedPlaceOf {
    fn place(&self) -> crate::model::location::OwnedPlace {
        let location = crate::model::Location::parse(&format!("p{}", self.0)).unwrap();
        crate::model::location::OwnedPlace { location, coordinates: None }
    }
}
