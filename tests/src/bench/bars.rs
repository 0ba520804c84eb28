//! One value of each subject, as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::{Deserialize, Serialize};

use super::plot::{COLORS, FONT, short};

const WIDTH: u32 = 760;
/// Title and axis.
const FRAME_HEIGHT: u32 = 100;
const BAR_HEIGHT: u32 = 30;
/// Left of the bars, for their names.
const NAMES_WIDTH: u32 = 300;

/// Horizontal bars over a logarithmic axis, which has no zero: only where a bar ends means something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// The name of its file, without an ending.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// What the axis counts, with its unit.
    pub x: String,
    /// From top to bottom. Those that are not above zero have no place on a logarithmic axis and are left out.
    pub bars: Vec<Bar>,
}

/// The value of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The subject.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Whether it is one of those that the others are compared with, which have a colour of their own.
    pub ours: bool,
}

impl Bars {
    /// The figure as an SVG document; `None` without a bar.
    pub fn svg(&self) -> Option<String> {
        let shown: Vec<&Bar> = self.bars.iter().filter(|bar| bar.value > 0.0 && bar.value.is_finite()).collect();
        if shown.is_empty() {
            return None;
        }
        let mut text = String::new();
        self.draw(&mut text, &shown).expect("a text takes what is drawn");
        Some(text)
    }

    fn draw(&self, text: &mut String, shown: &[&Bar]) -> Result<(), Box<dyn std::error::Error>> {
        let size = (WIDTH, FRAME_HEIGHT + BAR_HEIGHT * shown.len() as u32);
        let root = SVGBackend::with_string(text, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (low, high) = reach(shown);
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 18))
            .margin(12)
            .margin_right(30)
            .x_label_area_size(44)
            .y_label_area_size(NAMES_WIDTH)
            .build_cartesian_2d((low..high).log_scale(), 0.0..shown.len() as f64)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(0)
            .x_desc(&self.x)
            .x_label_formatter(&|value: &f64| short(*value))
            .label_style((FONT, 13))
            .light_line_style(WHITE)
            .draw()?;
        let label = |side| (FONT, 13).into_font().color(&BLACK).pos(Pos::new(side, VPos::Center));
        for (place, bar) in shown.iter().rev().enumerate() {
            let middle = place as f64 + 0.5;
            let color = if bar.ours { COLORS[0] } else { COLORS[1] };
            let corners = [(low, middle - 0.3), (bar.value, middle + 0.3)];
            chart.draw_series([Rectangle::new(corners, color.filled())])?;
            let name = Text::new(bar.name.clone(), (-8, 0), label(HPos::Right));
            chart.draw_series([EmptyElement::at((low, middle)) + name])?;
            let value = Text::new(short(rounded(bar.value)), (6, 0), label(HPos::Left));
            chart.draw_series([EmptyElement::at((bar.value, middle)) + value])?;
        }
        root.present()?;
        Ok(())
    }
}

/// From the power of ten below the smallest value to somewhat above the largest one, for its label.
fn reach(shown: &[&Bar]) -> (f64, f64) {
    let values = shown.iter().map(|bar| bar.value);
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    (10_f64.powf((least * 0.8).log10().floor()), most * 2.0)
}

/// To three significant digits.
fn rounded(value: f64) -> f64 {
    let scale = 10_f64.powf(2.0 - value.log10().floor());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64) -> Bar {
        Bar { name: name.to_owned(), value, ours: false }
    }

    fn bars(bars: Vec<Bar>) -> Bars {
        let [file, title, x] = ["a", "Hand-over", "µs"].map(str::to_owned);
        Bars { file, title, x, bars }
    }

    #[test]
    fn names_and_values_are_in_the_figure() {
        let svg = bars(vec![bar("ours <&>", 42.0), bar("theirs", 1500.0)]).svg().expect("it has bars");
        for part in ["<svg", "Hand-over", "µs", "ours &lt;&amp;&gt;", "42", "theirs", "1.5k", "</svg>"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn what_has_no_place_on_a_logarithmic_axis_is_left_out() {
        let none = vec![bar("zero", 0.0), bar("not measured", f64::NAN)];
        assert_eq!(bars(none.clone()).svg(), None);
        let some = bars([none, vec![bar("one", 1.0)]].concat()).svg().expect("it has a bar");
        assert!(some.contains("one") && !some.contains("zero") && !some.contains("not measured"), "{some}");
    }

    #[test]
    fn values_have_three_digits() {
        let shown = [0.012345, 9.996, 527.23, 56_891.3, 211_336.0].map(|value| short(rounded(value)));
        assert_eq!(shown, ["0.012", "10", "527", "56.9k", "211k"]);
    }

    #[test]
    fn the_smallest_bar_has_a_length() {
        for (least, low) in [(1.0, 0.1), (9.0, 1.0), (100.0, 10.0), (250.0, 100.0)] {
            let (from, to) = reach(&[&bar("a", least), &bar("b", 1e6)]);
            assert!((from / low - 1.0).abs() < 1e-9 && to > 1e6, "{from} below {least}");
        }
    }
}
