//! Location files: every format of spec/netscaler.md 1.4, and MaxMind databases. A file is checked to its end before
//! anything of it is used; one that is not of its format is refused with the line that shows it.
//!
//! | file | what |
//! |---|---|
//! | [`csv`] | text formats |
//! | [`mmdb`] | MaxMind databases |
//! | [`table`] | rows to the table that is searched |

mod csv;
mod mmdb;
mod table;
#[cfg(test)]
mod tests;

use std::{fs, path::Path, sync::Arc};

use super::{
    names,
    problem::{At, MOST_LISTED, Notes, Problem},
};
use crate::model::location::FileTable;
use table::Builder;

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A text format.
    Text(csv::Layout),
    /// A MaxMind database.
    Mmdb,
}

/// Every format that can be named. Columns are those that the vendor publishes; where it says only from which product a
/// format comes (city, organisation), they are the columns of that product's own export.
pub(super) const FORMATS: [(&str, Format); 14] = [
    ("netscaler", Format::Text(csv::NETSCALER)),
    ("netscaler6", Format::Text(csv::NETSCALER6)),
    ("ip-country", Format::Text(csv::IP_COUNTRY)),
    ("ip-country-isp", Format::Text(csv::IP_COUNTRY_ISP)),
    ("ip-country-region-city", Format::Text(csv::IP_COUNTRY_REGION_CITY)),
    ("ip-country-region-city-isp", Format::Text(csv::IP_COUNTRY_REGION_CITY_ISP)),
    ("geoip-country", Format::Text(csv::GEOIP_COUNTRY)),
    ("geoip-country6", Format::Text(csv::GEOIP_COUNTRY6)),
    ("geoip-region", Format::Text(csv::GEOIP_REGION)),
    ("geoip-city", Format::Text(csv::GEOIP_CITY)),
    ("geoip-country-org", Format::Text(csv::GEOIP_COUNTRY_ORG)),
    ("geoip-country-isp", Format::Text(csv::GEOIP_COUNTRY_ISP)),
    ("geoip-city-isp-org", Format::Text(csv::GEOIP_CITY_ISP_ORG)),
    ("mmdb", Format::Mmdb),
];

/// One of `location.files`
#[derive(Debug)]
pub struct Source {
    /// As typed.
    pub path: At<String>,
    /// None: by the ending of the name, and for text by what stands in it.
    pub format: Option<Format>,
}

/// Problems of one file: the first ones, and how many more.
#[derive(Default)]
struct Complaints {
    list: Vec<(u32, u32, String)>,
    more: usize,
}

impl Complaints {
    fn push(&mut self, line: u32, column: u32, text: impl Into<String>) {
        if self.list.len() < MOST_LISTED {
            self.list.push((line, column, text.into()));
        } else {
            self.more += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// What one file brings besides its rows.
#[derive(Default)]
struct Findings {
    wrong: Complaints,
    /// What will surprise; one line each.
    odd: Vec<String>,
}

/// Reads all files. An address that several hold has the place of the first of them. In a geographic context a row
/// without a continent gets that of its country, where some row names both.
pub(super) fn load(notes: &Notes<'_>, sources: &[Source], is_geographic: bool) -> Arc<FileTable> {
    let mut builder = Builder::default();
    for source in sources {
        let path = notes.resolve(&source.path.value);
        let bytes = match names::regular(&path).and_then(|()| fs::read(&path)) {
            Ok(bytes) => bytes,
            Err(error) => {
                let name = &source.path.value;
                notes.problem(source.path.at, format!("location.files: {name:?} cannot be read: {error}"));
                continue;
            }
        };
        builder.next_file();
        let mut findings = Findings::default();
        match source.format.unwrap_or_else(|| guess(&path, &bytes)) {
            Format::Text(layout) => csv::read(&bytes, layout, &mut builder, &mut findings),
            Format::Mmdb => mmdb::read(bytes, &mut builder, &mut findings),
        }
        let Complaints { list, more } = findings.wrong;
        let last = list.last().map_or(1, |(line, ..)| *line);
        for (line, column, text) in list {
            notes.problem_elsewhere(Problem { file: path.clone(), line, column, text });
        }
        if more > 0 {
            let text = format!("{more} lines behind this one have problems, too");
            notes.problem_elsewhere(Problem { file: path.clone(), line: last, column: u32::MAX, text });
        }
        for text in findings.odd {
            notes.warning(source.path.at, format!("location.files: {:?}: {text}", source.path.value));
        }
    }
    Arc::new(builder.finish(is_geographic))
}

/// By the ending of the name; a text whose first row is of IPv6 is the IPv6 format.
fn guess(path: &Path, bytes: &[u8]) -> Format {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("mmdb")) {
        return Format::Mmdb;
    }
    Format::Text(if csv::begins_with_v6(bytes) { csv::NETSCALER6 } else { csv::NETSCALER })
}
