//! A network as GraphML, which programs for graphs read.

use fdime::estimate::TransferEntropy;
use fdime::printable;
use maud::html;
use std::fmt::Write;

/// The numbers of an edge, by the names of the columns of tables.
const FIGURES: [&str; 6] = ["te_nats", "ci_low", "ci_high", "p_value", "p_adjusted", "net_nats"];

/// Returns a directed graph of the names, with an edge for each direction that has an estimate.
pub fn render(names: &[String], directions: &[TransferEntropy]) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
         <key id=\"name\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/>\n",
    );
    for figure in FIGURES {
        let _ = writeln!(
            text,
            "<key id=\"{figure}\" for=\"edge\" attr.name=\"{figure}\" attr.type=\"double\"/>"
        );
    }
    text += "<graph edgedefault=\"directed\">\n";
    for (place, name) in names.iter().enumerate() {
        let name = printable(name);
        let name = html! { (name) }.into_string();
        let _ = writeln!(text, "<node id=\"n{place}\"><data key=\"name\">{name}</data></node>");
    }
    for found in directions.iter().filter(|found| found.te_nats.is_some()) {
        let ends = [&found.from, &found.to].map(|end| names.iter().position(|name| name == end));
        let [Some(from), Some(to)] = ends else { continue };
        let _ = write!(text, "<edge source=\"n{from}\" target=\"n{to}\">");
        let values = [
            found.te_nats,
            found.ci_low,
            found.ci_high,
            found.p_value,
            found.p_adjusted,
            found.net_nats,
        ];
        for (figure, value) in FIGURES.iter().zip(values) {
            if let Some(value) = value {
                let _ = write!(text, "<data key=\"{figure}\">{value}</data>");
            }
        }
        text += "</edge>\n";
    }
    text + "</graph>\n</graphml>\n"
}
