//! Pictures of runs: loss curves and decision boundaries, as SVG or PNG.

mod pixels;

use std::error::Error as StdError;
use std::path::Path;

use foldback_graph::Value;
use foldback_tensor::{DType, Here, IoFacts, Tensor, refuse};
use pixels::Pixels;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::{Result, TrainFacts, check};

const SIZE: (u32, u32) = (640, 420);
/// About how many labels an axis has.
const LABELS: usize = 9;
/// Room for the labels of the vertical axis, and for half of the last one of the other.
const LEFT: u32 = 85;
const RIGHT: u32 = 30;
/// The letters of a legend.
const LETTERS: u32 = 16;
/// How many fields a decision boundary is drawn with, along each axis.
const FIELDS: usize = 100;

type Drawn = std::result::Result<(), Box<dyn StdError + Send + Sync>>;

/// Draws curves over epochs or steps, one for each name, into an `.svg` or `.png` file. What is not finite leaves a gap. All curves are
/// drawn; of more names than find room, about fifteen, the legend says how many it leaves out.
///
/// The letters of a PNG are those of Latin alphabets; others become question marks there.
///
/// # Errors
/// `Parameter` if there is no finite number, or the name ends in neither `.svg` nor `.png`; of kind `Io` if the file cannot be written.
///
/// ```
/// use foldback_train::plot_curves;
/// let path = std::env::temp_dir().join(format!("loss-{}.svg", std::process::id()));
/// plot_curves(&path, "loss", &[("training", &[0.9, 0.5, 0.3]), ("validation", &[1.0, 0.7, 0.6])])?;
/// assert!(std::fs::read_to_string(&path)?.contains("validation"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn plot_curves(path: impl AsRef<Path>, title: &str, curves: &[(&str, &[f64])]) -> Result<()> {
    const OP: &str = "plot_curves";
    let path = path.as_ref();
    let format = Format::of(OP, path).here()?;
    let finite = || curves.iter().flat_map(|(_, curve)| curve.iter().copied()).filter(|v| v.is_finite());
    check(finite().next().is_some(), OP, "curves", listed(curves), "at least one finite number").here()?;
    let range = room(finite());
    let longest = curves.iter().map(|(_, curve)| curve.len()).max().unwrap_or(0);
    save(OP, path, format, &Curves { title, curves, range, longest: longest.max(2) - 1 }).here()
}

/// Curves of which none has a finite number, by their names.
fn listed(curves: &[(&str, &[f64])]) -> String {
    let one = |(name, curve): &(&str, &[f64])| match curve.len() {
        0 => format!("{name:?} (empty)"),
        n => format!("{name:?} ({n} of NaN or infinity)"),
    };
    let listed: Vec<String> = curves.iter().map(one).collect();
    format!("[{}]", listed.join(", "))
}

struct Curves<'a> {
    title: &'a str,
    curves: &'a [(&'a str, &'a [f64])],
    range: std::ops::Range<f64>,
    /// the last place of the longest one
    longest: usize,
}

impl Picture for Curves<'_> {
    fn draw<B: DrawingBackend<ErrorType: 'static>>(&self, area: &DrawingArea<B, Shift>) -> Drawn {
        let mut chart = ChartBuilder::on(area)
            .caption(words(self.title), ("sans-serif", 20))
            .margin(10)
            .margin_right(RIGHT)
            .x_label_area_size(30)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(0.0..self.longest as f64, self.range.clone())?;
        let (x, y) = (|x: &f64| x.to_string(), |y: &f64| short(*y, &self.range));
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE).x_labels(LABELS.min(self.longest + 1)).y_labels(LABELS);
        mesh.x_label_formatter(&x).y_label_formatter(&y).draw()?;
        let is_seen = |curve: &[f64]| curve.iter().any(|y| y.is_finite());
        let names = self.curves.iter().filter(|(_, curve)| is_seen(curve)).count();
        let rows = legend_rows(chart.plotting_area().dim_in_pixel().1);
        // The last row is for those that have none.
        let left_out = if names > rows { names - (rows - 1) } else { 0 };
        let mut entries = names - left_out;
        for (i, (name, curve)) in self.curves.iter().enumerate() {
            let colour = Palette99::pick(i).to_rgba();
            let points: Vec<(f64, f64)> =
                curve.iter().enumerate().map(|(x, &y)| (x as f64, tame(y))).collect();
            let mut label = Some(*name).filter(|_| entries > 0);
            for stretch in points.split(|(_, y)| !y.is_finite()).filter(|s| !s.is_empty()) {
                let line = match stretch {
                    &[alone] => chart.draw_series([Circle::new(alone, 2, colour.filled())])?,
                    _ => chart.draw_series(LineSeries::new(thinned(stretch), colour.stroke_width(2)))?,
                };
                if let Some(name) = label.take() {
                    entries -= 1;
                    line.label(words(name)).legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                    });
                }
            }
        }
        if left_out > 0 {
            let nothing = std::iter::empty::<Circle<(f64, f64), u32>>();
            chart.draw_series(nothing)?.label(format!("and {left_out} more"));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(("sans-serif", LETTERS))
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        Ok(())
    }
}

/// How many names a legend has room for in a picture that is so high: its rows are a quarter higher than the letters, and it keeps 5
/// pixels to the frame and 10 inside its own, above and below.
fn legend_rows(height: u32) -> usize {
    let row = LETTERS + LETTERS / 4;
    (height.saturating_sub(2 * (5 + 10)) / row).max(2) as usize
}

/// Draws what a classifier of two features says everywhere around its data, and the data, into an `.svg` or `.png` file.
///
/// `points` are `[n, 2]`, `labels` `[n]` class numbers; `classify` takes `[m, 2]` of the points' type and returns `[m]` class
/// numbers.
///
/// # Errors
/// `Parameter` if shapes or types are others, there is no point, one is not finite, a class number is negative, or the
/// name ends in neither `.svg` nor `.png`; what `classify` returns; of kind `Io` if the file cannot be written.
///
/// ```
/// use foldback_tensor::tensor;
/// use foldback_train::plot_decision_boundary;
/// let path = std::env::temp_dir().join(format!("boundary-{}.svg", std::process::id()));
/// let (x, labels) = (tensor![[0.0, 0.0], [1.0, 1.0]], tensor![0, 1; i64]);
/// plot_decision_boundary(&path, &x, &labels, |x| Ok(x.sum(1)?.gt(1.0)?.long()))?;
/// assert!(std::fs::read_to_string(&path)?.starts_with("<svg"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), foldback_train::Error>(())
/// ```
#[track_caller]
pub fn plot_decision_boundary<V: Value>(
    path: impl AsRef<Path>,
    points: &Tensor,
    labels: &Tensor,
    classify: impl FnOnce(&Tensor) -> Result<V>,
) -> Result<()> {
    const OP: &str = "plot_decision_boundary";
    let path = path.as_ref();
    let format = Format::of(OP, path).here()?;
    let n = labels.numel();
    let fits = n > 0 && *points.dims() == [n, 2] && *labels.dims() == [n];
    check(fits, OP, "points", points.shape(), format!("[{n}, 2], two numbers for each of the labels, [n]"))
        .here()?;
    let flat = points.to(DType::F64).to_vec::<f64>().here()?;
    check(flat.iter().all(|v| v.is_finite()), OP, "points", "NaN or infinity", "finite numbers").here()?;
    let labels = class_ids(OP, "labels", labels, n).here()?;
    let flat: Vec<f64> = flat.into_iter().map(tame).collect();
    let [xs, ys] = [0, 1].map(|axis| room(flat.iter().skip(axis).step_by(2).copied()));
    let middle =
        |r: &std::ops::Range<f64>, i: usize| r.start + (r.end - r.start) * (i as f64 + 0.5) / FIELDS as f64;
    let field = |i: usize| [middle(&xs, i % FIELDS), middle(&ys, i / FIELDS)];
    let grid: Vec<f64> = (0..FIELDS * FIELDS).flat_map(field).collect();
    let grid = Tensor::from_vec(grid, [FIELDS * FIELDS, 2]).here()?.to(points.dtype());
    let classes =
        class_ids(OP, "what classify returned", &classify(&grid)?.as_var().value(), FIELDS * FIELDS)
            .here()?;
    save(OP, path, format, &Boundary { points: flat, labels, classes, xs, ys }).here()
}

struct Boundary {
    points: Vec<f64>,
    labels: Vec<usize>,
    /// those of the fields, row by row
    classes: Vec<usize>,
    xs: std::ops::Range<f64>,
    ys: std::ops::Range<f64>,
}

impl Picture for Boundary {
    fn draw<B: DrawingBackend<ErrorType: 'static>>(&self, area: &DrawingArea<B, Shift>) -> Drawn {
        let Boundary { points, labels, classes, xs, ys } = self;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(RIGHT)
            .x_label_area_size(30)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(xs.clone(), ys.clone())?;
        let [w, h] = [xs, ys].map(|r| (r.end - r.start) / FIELDS as f64);
        // Neighbours of one class in a row are one rectangle.
        let rows = classes.chunks(FIELDS).enumerate().flat_map(|(row, classes)| {
            let mut from = 0;
            classes
                .chunk_by(|a, b| a == b)
                .map(move |run| {
                    from += run.len();
                    (row, from - run.len(), from, run[0])
                })
                .collect::<Vec<_>>()
        });
        chart.draw_series(rows.map(|(row, from, to, class)| {
            let at = |x: usize, y: usize| (xs.start + w * x as f64, ys.start + h * y as f64);
            Rectangle::new([at(from, row), at(to, row + 1)], pale(class).filled())
        }))?;
        let (x, y) = (|x: &f64| short(*x, xs), |y: &f64| short(*y, ys));
        let mut mesh = chart.configure_mesh();
        mesh.disable_mesh().x_labels(LABELS).y_labels(LABELS);
        mesh.x_label_formatter(&x).y_label_formatter(&y).draw()?;
        let dots = points.chunks(2).zip(labels);
        chart.draw_series(
            dots.map(|(p, &class)| Circle::new((p[0], p[1]), 3, Palette99::pick(class).filled())),
        )?;
        Ok(())
    }
}

/// The colour of a class, for what lies behind its points. Nothing shines through, so that no seam is seen where two meet.
fn pale(class: usize) -> RGBColor {
    let (r, g, b) = Palette99::pick(class).to_rgba().rgb();
    let [r, g, b] = [r, g, b].map(|v| (255.0 + 0.3 * (f64::from(v) - 255.0)).round() as u8);
    RGBColor(r, g, b)
}

fn class_ids(op: &'static str, name: &'static str, classes: &Tensor, n: usize) -> Result<Vec<usize>> {
    let found = format!("{} {}", classes.dtype(), classes.shape());
    let fits = matches!(classes.dtype(), DType::I64 | DType::Bool) && *classes.dims() == [n];
    check(fits, op, name, found, format!("class numbers, i64 [{n}]: x.argmax(1)"))?;
    let classes = classes.long().to_vec::<i64>()?;
    let number = |c: i64| {
        usize::try_from(c).or_else(|_| check(false, op, name, c, "class numbers from 0 on").map(|()| 0))
    };
    classes.into_iter().map(number).collect()
}

/// A place on an axis, in as many digits as tell it from its neighbours.
fn short(value: f64, range: &std::ops::Range<f64>) -> String {
    let apart = (range.end - range.start) / LABELS as f64;
    let largest = range.start.abs().max(range.end.abs());
    // What is nothing beside the distance to the next label is zero.
    let value = if value.abs() < 1e-9 * apart { 0.0 } else { value };
    let exponent = |v: f64| v.log10().floor() as i32;
    let (of_largest, of_apart) = (exponent(largest), exponent(apart));
    if of_largest >= 6 || of_apart < -5 {
        if value == 0.0 {
            return "0".into();
        }
        let digits = (of_largest.max(exponent(value.abs())) - of_apart).clamp(0, 15) as usize;
        return format!("{value:.digits$e}");
    }
    format!("{value:.0$}", of_apart.saturating_neg().clamp(0, 15) as usize)
}

/// A line that is as wide as the picture: of each of its parts the least and the largest value, in their order. More is not seen.
fn thinned(stretch: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let parts = stretch.len().div_ceil(SIZE.0 as usize);
    if parts <= 2 {
        return stretch.to_vec();
    }
    let ends = |part: &[(f64, f64)]| {
        let by_value = |a: &(usize, &(f64, f64)), b: &(usize, &(f64, f64))| a.1.1.total_cmp(&b.1.1);
        let places = || part.iter().enumerate();
        let (least, most) = (places().min_by(by_value), places().max_by(by_value));
        let mut ends = [least, most].map(|end| end.expect("a part has a point"));
        ends.sort_by_key(|end| end.0);
        ends.map(|end| *end.1)
    };
    stretch.chunks(parts).flat_map(ends).collect()
}

/// A text in one line that ends somewhere: no file may hold control characters.
fn words(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A number that is drawn at the edge if it is so large that the width of a range would not be a number. NaN and infinities stay.
fn tame(value: f64) -> f64 {
    if value.is_finite() { value.clamp(-1e300, 1e300) } else { value }
}

/// From the smallest to the largest, and a little more on both sides.
fn room(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    let (low, high) = (tame(low), tame(high));
    let more = 0.05 * (high - low);
    let more = if more > 1e-12 * low.abs().max(high.abs()) { more } else { low.abs().max(1.0) * 0.1 };
    low - more..high + more
}

#[derive(Clone, Copy)]
enum Format {
    Svg,
    Png,
}

impl Format {
    /// As the name of the file ends.
    fn of(op: &'static str, path: &Path) -> Result<Format> {
        let ends_in = |wanted: &str| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(wanted));
        let known = ends_in("svg") || ends_in("png");
        check(known, op, "the file", path.display(), "a name that ends in .svg or .png")?;
        Ok(if ends_in("svg") { Format::Svg } else { Format::Png })
    }
}

/// What can be drawn on anything.
trait Picture {
    fn draw<B: DrawingBackend<ErrorType: 'static>>(&self, area: &DrawingArea<B, Shift>) -> Drawn;
}

fn draw_on<B: DrawingBackend<ErrorType: 'static>>(backend: B, picture: &impl Picture) -> Drawn {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)?;
    picture.draw(&area)?;
    Ok(area.present()?)
}

fn drawn(
    format: Format,
    picture: &impl Picture,
) -> std::result::Result<Vec<u8>, Box<dyn StdError + Send + Sync>> {
    match format {
        Format::Svg => {
            let mut text = String::new();
            draw_on(SVGBackend::with_string(&mut text, SIZE), picture)?;
            Ok(text.into_bytes())
        }
        Format::Png => {
            let (mut pixels, mut file) = (Vec::new(), Vec::new());
            draw_on(Pixels(&mut pixels), picture)?;
            let mut encoder = png::Encoder::new(&mut file, SIZE.0, SIZE.1);
            encoder.set_color(png::ColorType::Rgb);
            encoder.write_header()?.write_image_data(&pixels)?;
            Ok(file)
        }
    }
}

/// Draws in memory, and writes the file when all of it is there. (A drawing into a file tells of a full disk by a panic.)
fn save(op: &'static str, path: &Path, format: Format, picture: &impl Picture) -> Result<()> {
    let file = path.display().to_string();
    match drawn(format, picture) {
        Ok(bytes) => std::fs::write(path, bytes).map_err(|e| IoFacts::writing(op, file, &e)),
        Err(e) => refuse(TrainFacts::Picture { op, file, what: format!("it cannot be drawn: {e}") }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use foldback_tensor::{Kind, refused, tensor};

    use super::*;

    struct Shown(PathBuf);

    impl Shown {
        fn new(name: &str) -> Shown {
            Shown(std::env::temp_dir().join(format!("foldback-{}-{name}.svg", std::process::id())))
        }
        fn text(&self) -> String {
            std::fs::read_to_string(&self.0).unwrap()
        }
    }

    impl Drop for Shown {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn curves_have_names_and_gaps() {
        let picture = Shown::new("curves");
        let curve = [1.0, 0.5, f64::NAN, 0.4, 0.3, f64::INFINITY];
        plot_curves(&picture.0, "a < b", &[("one & two", &curve), ("flat", &[0.2, 0.2])]).unwrap();
        let text = picture.text();
        assert!(
            text.contains("a &lt; b") && text.contains("one &amp; two") && text.contains("flat"),
            "{text}"
        );
        assert!(text.matches("<polyline").count() >= 3, "two stretches and a line");
        for values in [&[3.0][..], &[1e308, -1e308], &[1e-320], &[0.0, 0.0], &[1e16, 1e16 + 2.0]] {
            plot_curves(&picture.0, "", &[("x", values)]).unwrap();
            assert!(!picture.text().contains("NaN"), "{values:?}");
        }
    }

    /// The number behind `name="` of an element.
    fn number(element: &str, name: &str) -> Option<f64> {
        element.split_once(&format!(" {name}=\""))?.1.split('"').next()?.parse().ok()
    }

    #[test]
    fn a_legend_stays_in_the_picture() {
        let picture = Shown::new("legend");
        for n in 1..40 {
            let names: Vec<String> = (0..n).map(|i| format!("fold {i}.")).collect();
            let mut curves: Vec<(&str, &[f64])> =
                names.iter().map(|n| (n.as_str(), &[0.1, 0.3][..])).collect();
            // What is not drawn has no name, and takes no room.
            curves.insert(0, ("nothing", &[f64::NAN]));
            for title in ["", "the losses of all folds"] {
                plot_curves(&picture.0, title, &curves).unwrap();
                let text = picture.text();
                let is_picture = |element: &str| number(element, "height") == Some(f64::from(SIZE.1));
                for element in text.split('<').filter(|e| !is_picture(e)) {
                    if element.starts_with("rect") || element.contains("fold ") || element.contains(" more") {
                        let height = number(element, "height").unwrap_or(f64::from(LETTERS));
                        // Above the numbers of the horizontal axis.
                        assert!(number(element, "y").unwrap() + height <= 380.0, "{n}: {element}");
                    }
                }
                let named = names.iter().filter(|name| text.contains(name.as_str())).count();
                let left_out = format!("and {} more", n - named);
                assert_eq!((text.contains("and "), text.contains(&left_out)), (named < n, named < n), "{n}");
                assert!(named == n || (14..17).contains(&named), "{named} of {n}");
                assert!(!text.contains("nothing") && text.matches("<polyline").count() >= n);
            }
        }
    }

    #[test]
    fn boundaries_show_what_the_classifier_says() {
        let picture = Shown::new("boundary");
        let (x, labels) = (tensor![[0.0, 0.0], [1.0, 2.0], [0.5, 0.5]; f64], tensor![0, 2, 1; i64]);
        let left_or_right = |x: &Tensor| {
            assert_eq!((x.dims(), x.dtype()), (&[10_000, 2][..], DType::F64));
            Ok(x.select(1, 0)?.gt(0.5)?.long())
        };
        plot_decision_boundary(&picture.0, &x, &labels, left_or_right).unwrap();
        let text = picture.text();
        // Two rectangles in each row besides the background, and the points.
        assert_eq!(text.matches("<rect").count(), 201);
        assert_eq!(text.matches("<circle").count(), 3);
    }

    /// A PNG, decoded: its pixels, and how many of them are of a colour.
    struct Decoded(Vec<u8>);

    impl Decoded {
        fn new(path: &std::path::Path) -> Decoded {
            let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
            let mut reader = png::Decoder::new(file).read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut pixels).unwrap();
            assert_eq!((info.width, info.height, info.color_type), (640, 420, png::ColorType::Rgb));
            Decoded(pixels)
        }

        fn count(&self, colour: (u8, u8, u8)) -> usize {
            self.0.chunks(3).filter(|p| (p[0], p[1], p[2]) == colour).count()
        }
    }

    #[test]
    fn labels_tell_places_apart() {
        let of = |low: f64, high: f64| [low, (low + high) / 2.0, high].map(|v| short(v, &(low..high)));
        assert_eq!(of(0.0, 10.0), ["0", "5", "10"]);
        assert_eq!(of(0.25, 0.75), ["0.25", "0.50", "0.75"]);
        assert_eq!(of(-2.0, 2.0), ["-2.0", "0.0", "2.0"]);
        assert_eq!(of(498_000.0, 512_000.0), ["498000", "505000", "512000"]);
        assert_eq!(of(1e8, 3e8), ["1.0e8", "2.0e8", "3.0e8"]);
        assert_eq!(of(8e-6, 2e-5), ["8.0e-6", "1.4e-5", "2.0e-5"]);
        assert_eq!(of(-5e-324, 5e-324)[1], "0");
        assert_eq!(short(-1e-17, &(-1.0..1.0)), "0.0");
        for (low, high) in [(-1e300, 1e300), (1e15, 1e15 + 2.0), (0.0, 1e-320), (1.0, 1.0 + 1e-15)] {
            let labels = of(low, high);
            assert!(labels.iter().all(|label| label.len() <= 23), "{labels:?}");
        }
    }

    #[test]
    fn long_lines_keep_their_extremes() {
        let long: Vec<(f64, f64)> = (0..100_000).map(|i| (i as f64, (i * 7919 % 1000) as f64)).collect();
        let thin = thinned(&long);
        assert!(thin.len() <= 2 * 640 && thin.is_sorted_by(|a, b| a.0 <= b.0));
        let ends = |points: &[(f64, f64)]| {
            points.iter().fold((f64::MAX, f64::MIN), |(a, b), p| (a.min(p.1), b.max(p.1)))
        };
        assert_eq!(ends(&thin), ends(&long));
        assert_eq!(thinned(&long[..1280]), &long[..1280]);
    }

    #[test]
    fn values_alone_are_dots_and_texts_have_one_line() {
        let picture = Shown::new("dots");
        plot_curves(&picture.0, "a\0\nb", &[("x\u{7}", &[0.5]), ("y", &[0.1, f64::NAN, 0.3, f64::NAN])])
            .unwrap();
        let text = picture.text();
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
    }

    #[test]
    fn a_png_has_the_lines_and_the_letters() {
        let picture = Shown(std::env::temp_dir().join(format!("foldback-{}-curves.PNG", std::process::id())));
        let colour = Palette99::pick(0).to_rgba().rgb();
        plot_curves(&picture.0, "", &[("", &[1.0, 1.0])]).unwrap();
        let plain = Decoded::new(&picture.0);
        // A line of two or three pixels over most of the width, and nothing else of its colour but the legend's.
        assert!((1_000..1_800).contains(&plain.count(colour)), "{}", plain.count(colour));
        assert_eq!(plain.count(Palette99::pick(1).to_rgba().rgb()), 0);
        let dark = |of: &Decoded| of.0.iter().filter(|v| **v < 128).count();
        plot_curves(&picture.0, "Loss \u{1f600}", &[("", &[1.0, 1.0])]).unwrap();
        let titled = Decoded::new(&picture.0);
        assert!(dark(&titled) > dark(&plain) + 150, "{} {}", dark(&titled), dark(&plain));

        let (x, labels) = (tensor![[0.0, 0.0], [1.0, 2.0]; f64], tensor![0, 1; i64]);
        let left_or_right = |x: &Tensor| Ok(x.select(1, 0)?.gt(0.5)?.long());
        plot_decision_boundary(&picture.0, &x, &labels, left_or_right).unwrap();
        let boundary = Decoded::new(&picture.0);
        let field = |class: usize| boundary.count(pale(class).to_rgba().rgb());
        // Half of the plane for each, but for the points.
        assert!(field(0).min(field(1)) > 90_000, "{} {}", field(0), field(1));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let picture = Shown::new("none");
        let (x, labels) = (tensor![[0.0, 0.0]], tensor![0; i64]);
        let curves: &[(&str, &[f64])] = &[("training", &[f64::NAN, f64::INFINITY]), ("validation", &[])];
        let e = plot_curves(&picture.0, "", curves).unwrap_err();
        let all = r#"curves = ["training" (2 of NaN or infinity), "validation" (empty)]"#;
        assert!(e.to_string().starts_with(&format!("plot_curves: {all} is not valid: expected")), "{e}");
        assert!(refused!(plot_curves(&picture.0, "", &[]), TrainFacts::Parameter { .. }));
        assert!(
            plot_curves("a.gif", "", &[("x", &[1.0])])
                .unwrap_err()
                .to_string()
                .contains("ends in .svg or .png")
        );
        let e = plot_curves("no/such/a.svg", "", &[("x", &[1.0])]).unwrap_err();
        assert!(e.kind() == Kind::Io && e.to_string().starts_with("plot_curves: no/such/a.svg: "), "{e}");
        #[cfg(target_os = "linux")]
        {
            let full = Shown::new("full");
            std::os::unix::fs::symlink("/dev/full", &full.0).unwrap();
            assert_eq!(plot_curves(&full.0, "", &[("x", &[1.0])]).unwrap_err().kind(), Kind::Io);
        }
        let zeros = |x: &Tensor| x.select(1, 0)?.mul(0.0).map(|x| x.long());
        for (x, labels) in [
            (tensor![[f32::NAN, 0.0]], labels.clone()),
            (tensor![0.0, 0.0], labels.clone()),
            (x.clone(), tensor![-1; i64]),
            (x.clone(), tensor![0.5]),
        ] {
            let e = plot_decision_boundary(&picture.0, &x, &labels, zeros).unwrap_err();
            assert!(matches!(e.facts(), Some(TrainFacts::Parameter { .. })), "{e}");
        }
        assert!(plot_decision_boundary(&picture.0, &x, &labels, |x| Ok(x.clone())).is_err());
        assert!(plot_decision_boundary(&picture.0, &x, &labels, |_| tensor![1.0].sum(3)).is_err());
    }
}
