//! Figures as SVG.

use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use super::Bars;

const SIZE: (u32, u32) = (760, 420);
pub(super) const FONT: &str = "sans-serif";
/// Told apart also by those who see few colours (Okabe and Ito, "Color Universal Design").
pub(super) const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// A figure of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Figure {
    /// Lines.
    Plot(Plot),
    /// Bars.
    Bars(Bars),
}

impl Figure {
    /// The name of its file, without an ending.
    pub fn file(&self) -> &str {
        match self {
            Figure::Plot(plot) => &plot.file,
            Figure::Bars(bars) => &bars.file,
        }
    }

    /// What it shows.
    pub fn title(&self) -> &str {
        match self {
            Figure::Plot(plot) => &plot.title,
            Figure::Bars(bars) => &bars.title,
        }
    }

    /// The figure as an SVG document; `None` when there is nothing to show.
    pub fn svg(&self) -> Option<String> {
        match self {
            Figure::Plot(plot) => plot.svg(),
            Figure::Bars(bars) => bars.svg(),
        }
    }
}

impl From<Plot> for Figure {
    fn from(plot: Plot) -> Figure {
        Figure::Plot(plot)
    }
}

impl From<Bars> for Figure {
    fn from(bars: Bars) -> Figure {
        Figure::Bars(bars)
    }
}

/// Lines over two logarithmic axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// The name of its file, without an ending.
    pub file: String,
    /// What it shows.
    pub title: String,
    /// What the horizontal axis counts, with its unit.
    pub x: String,
    /// What the vertical axis counts, with its unit.
    pub y: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// The points of one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The subject.
    pub name: String,
    /// Horizontal and vertical values. Those that are not above zero have no place on a logarithmic axis and are left out.
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// The figure as an SVG document; `None` without a point.
    pub fn svg(&self) -> Option<String> {
        let shown = || self.lines.iter().flat_map(|line| &line.points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
        let reach = |pick: fn(&(f64, f64)) -> f64| {
            let values = shown().map(pick);
            let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
            low / 1.3..high * 1.3
        };
        shown().next()?;
        let mut text = String::new();
        self.draw(&mut text, reach(|point| point.0), reach(|point| point.1)).expect("a text takes what is drawn");
        Some(text)
    }

    fn draw(
        &self,
        text: &mut String,
        x: std::ops::Range<f64>,
        y: std::ops::Range<f64>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        let label = |value: &f64| short(*value);
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .label_style((FONT, 13))
            .light_line_style(WHITE)
            .draw()?;
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            let points: Vec<(f64, f64)> = line.points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
            let style = ShapeStyle { color: color.to_rgba(), filled: true, stroke_width: 2 };
            chart
                .draw_series(LineSeries::new(points, style).point_size(3))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, 13))
            .draw()?;
        root.present()?;
        Ok(())
    }
}

/// 1500 as 1.5k.
pub(super) fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        large if large >= 1e6 => (value / 1e6, "M"),
        large if large >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = format!("{scaled:.3}");
    format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let line = Line { name: "ours <&>".to_owned(), points };
        let [file, title, x, y] = ["a", "Waiters", "waiters", "commands/s"].map(str::to_owned);
        Plot { file, title, x, y, lines: vec![line] }
    }

    #[test]
    fn names_and_axes_are_in_the_figure() {
        let svg = plot(vec![(1.0, 2.0), (1_000.0, 30.0)]).svg().expect("it has points");
        for part in ["<svg", "Waiters", "waiters", "commands/s", "ours &lt;&amp;&gt;", "</svg>"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn a_value_of_zero_has_no_place_on_a_logarithmic_axis() {
        assert_eq!(plot(vec![(1.0, 0.0), (0.0, 1.0)]).svg(), None);
        assert!(plot(vec![(1.0, 0.0), (2.0, 5.0)]).svg().is_some());
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.05, 7.0, 1_500.0, 100_000.0, 2e6].map(short), ["0.05", "7", "1.5k", "100k", "2M"]);
    }
}
