//! Images: folders of them as datasets, and single ones in and out.

use std::fs;
use std::path::{Path, PathBuf};

use foldback_tensor::{DType, Here, Tensor};
use image::imageops::FilterType;
use image::{DynamicImage, GrayImage, ImageReader, Limits, Rgb, RgbImage};

use super::Source;
use crate::dataset::Dataset;
use crate::error::{Result, check, check_index};

/// What errors of a folder name.
const FOLDER: &str = "image folder";

/// What a decoder may use for one image.
const MOST_BYTES: u64 = 1 << 28;
/// And what may become of it: with four bytes for each, as much.
const MOST_PIXELS: u64 = 1 << 26;
const EXTENSIONS: [&str; 7] = ["png", "jpg", "jpeg", "bmp", "pgm", "ppm", "pnm"];

/// A folder with a folder of images for each class: items are the image, `[3, height, width]` of `f32` between 0 and 1, and
/// the number of its class in alphabetical order, `i64`. (As torchvision's
/// [`ImageFolder`](https://docs.pytorch.org/vision/stable/generated/torchvision.datasets.ImageFolder.html) with `ToTensor`.)
///
/// An image is read when its item is asked for; PNG, JPEG, BMP and PNM. Batches need one size: [`ImageFolder::resize`].
///
/// ```no_run
/// use foldback_data::{DataLoader, ImageFolder};
/// let set = ImageFolder::open("flowers")?.resize(64, 64);    // flowers/rose/1.png, flowers/tulip/7.jpg, ...
/// println!("{:?}", set.classes());
/// for batch in &DataLoader::new(set, 32).shuffle(true).workers(2) {
///     let (images, labels) = batch?;                         // [32, 3, 64, 64], [32]
/// }
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    images: Vec<(PathBuf, i64)>,
    grayscale: bool,
    size: Option<(u32, u32)>,
}

impl ImageFolder {
    /// The images in the folders of this one. Files whose names do not end as images' do are left aside.
    ///
    /// # Errors
    /// `File` if there are no folders, or one has no images; whatever the system says about reading them.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<ImageFolder> {
        ImageFolder::find(path.as_ref()).or_here()
    }

    fn find(path: &Path) -> Result<ImageFolder> {
        let (mut classes, mut images) = (Vec::new(), Vec::new());
        for folder in entries(path)?.into_iter().filter(|p| p.is_dir()) {
            let number = classes.len() as i64;
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
            let before = images.len();
            images.extend(entries(&folder)?.into_iter().filter(|p| is_image(p)).map(|p| (p, number)));
            if images.len() == before {
                return Source::new(FOLDER, &folder)
                    .malformed(format!("no images: files that end in {}", EXTENSIONS.join(", ")));
            }
        }
        if classes.is_empty() {
            return Source::new(FOLDER, path)
                .malformed("no folders: there is one for each class, with its images");
        }
        Ok(ImageFolder { classes, images, grayscale: false, size: None })
    }

    /// Whether images have one channel, `[1, height, width]`, of 0.299 red, 0.587 green and 0.114 blue, as torchvision's
    /// [`Grayscale`](https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Grayscale.html). The default is false.
    #[must_use]
    pub fn grayscale(mut self, grayscale: bool) -> ImageFolder {
        self.grayscale = grayscale;
        self
    }

    /// Scales every image to this size, whatever its proportions (triangle filter, as wide as the scaling needs).
    ///
    /// # Panics
    /// If a size is 0, or there are more than 2²⁶ pixels.
    #[must_use]
    #[track_caller]
    pub fn resize(mut self, height: u32, width: u32) -> ImageFolder {
        let size = format!("{height} x {width}");
        let pixels = u64::from(height) * u64::from(width);
        let expected = "at least 1 x 1, and at most 67108864 pixels";
        foldback_tensor::or_panic(check(
            (1..=MOST_PIXELS).contains(&pixels),
            FOLDER,
            "resize",
            size,
            expected,
        ));
        self.size = Some((height, width));
        self
    }

    /// The names of the classes, by number.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The class numbers of all items, for samplers and splits.
    pub fn labels(&self) -> Vec<i64> {
        self.images.iter().map(|(_, label)| *label).collect()
    }
}

impl Dataset for ImageFolder {
    type Item = (Tensor, i64);

    fn len(&self) -> usize {
        self.images.len()
    }
    #[track_caller]
    fn get(&self, index: usize) -> Result<(Tensor, i64)> {
        check_index(FOLDER, index, self.len()).here()?;
        let (path, label) = &self.images[index];
        let mut image = decode(FOLDER, path).or_here()?;
        if let Some((height, width)) = self.size {
            image = image.resize_exact(width, height, FilterType::Triangle);
        }
        Ok((pixels(image, self.grayscale).here()?, *label))
    }
}

/// What a folder holds, in alphabetical order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = list().map_err(|e| Source::new(FOLDER, folder).failed(e))?;
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_lowercase);
    extension.is_some_and(|e| EXTENSIONS.contains(&e.as_str()))
}

/// By what the file holds, not by its name.
fn decode(op: &'static str, path: &Path) -> Result<DynamicImage> {
    let (file, reader) = Source::open(op, path)?;
    let mut reader = ImageReader::new(reader).with_guessed_format().map_err(|e| file.failed(e))?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_BYTES);
    reader.limits(limits);
    reader.decode().or_else(|e| file.malformed(format!("it cannot be read as an image: {e}")))
}

/// `[channels, height, width]`, between 0 and 1.
fn pixels(image: DynamicImage, grayscale: bool) -> Result<Tensor> {
    let (height, width) = (image.height() as usize, image.width() as usize);
    let (bytes, channels) = match grayscale {
        true if image.color().has_color() => (image.into_rgb8().pixels().map(luma).collect(), 1),
        true => (image.into_luma8().into_raw(), 1),
        false => (image.into_rgb8().into_raw(), 3),
    };
    let values: Vec<f32> = bytes.into_iter().map(|b| f32::from(b) / 255.0).collect();
    Ok(Tensor::from_vec(values, [height, width, channels])?.permute([2, 0, 1])?.contiguous())
}

/// How bright a colour is, by the weights of ITU-R BT.601, rounded.
fn luma(&Rgb([red, green, blue]): &Rgb<u8>) -> u8 {
    let sum = 19_595 * u32::from(red) + 38_470 * u32::from(green) + 7_471 * u32::from(blue);
    ((sum + 0x8000) >> 16) as u8
}

/// An image of a file, `[3, height, width]` of `f32` between 0 and 1.
///
/// # Errors
/// `File` if it is none that can be read; whatever the system says about reading it.
///
/// ```no_run
/// let image = foldback_data::read_image("rose.png")?;
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn read_image(path: impl AsRef<Path>) -> Result<Tensor> {
    decode("read_image", path.as_ref()).and_then(|image| pixels(image, false)).or_here()
}

/// Writes an image, `[1, height, width]` in grey or `[3, height, width]` in colours, in the format that the name ends in
/// (`.png`, `.bmp`, `.jpg`). What lies beyond 0 and 1 is cut off there.
///
/// # Errors
/// `Parameter` for another shape; `File` if the name ends in no format, or the system says so.
///
/// ```no_run
/// use foldback_tensor::Tensor;
/// foldback_data::write_image("noise.png", &Tensor::rand([3, 32, 32]))?;
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn write_image(path: impl AsRef<Path>, image: &Tensor) -> Result<()> {
    encode(path.as_ref(), image).or_here()
}

fn encode(path: &Path, image: &Tensor) -> Result<()> {
    let expected = "[1, height, width] or [3, height, width], height and width at least 1";
    let fits = matches!(image.dims(), &[1 | 3, h, w] if h > 0 && w > 0 && h < 1 << 20 && w < 1 << 20);
    check(fits, "write_image", "the image's shape", image.shape(), expected)?;
    let &[channels, height, width] = image.dims() else { unreachable!("it was checked") };
    let bytes = (image.to(DType::F32).nan_to_num().clamp(0.0, 1.0)? * 255.0).round();
    let bytes: Vec<u8> = bytes.permute([1, 2, 0])?.to_vec::<f32>()?.into_iter().map(|v| v as u8).collect();
    let (width, height) = (width as u32, height as u32);
    let image = match channels {
        1 => GrayImage::from_raw(width, height, bytes).map(DynamicImage::from),
        _ => RgbImage::from_raw(width, height, bytes).map(DynamicImage::from),
    };
    let file = Source::new("write_image", path);
    match image.map(|image| image.save(path)) {
        Some(Ok(())) => Ok(()),
        Some(Err(e)) => file.malformed(format!("it cannot be written: {e}")),
        None => file.malformed("it cannot be written: the image has another size"),
    }
}

/// Images beside and below one another: `[n, channels, height, width]` to one image, row by row, with a margin of one pixel
/// of 0.5 around each.
///
/// # Errors
/// `Parameter` unless there are four axes and at least one column.
///
/// ```
/// use foldback_data::image_grid;
/// use foldback_tensor::Tensor;
/// let grid = image_grid(&Tensor::rand([5, 1, 8, 8]), 3)?;
/// assert_eq!(grid.dims(), [1, 2 * 9 + 1, 3 * 9 + 1]);
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn image_grid(images: &Tensor, columns: usize) -> Result<Tensor> {
    grid(images, columns).here()
}

fn grid(images: &Tensor, columns: usize) -> Result<Tensor> {
    check(columns > 0, "image_grid", "columns", columns, "at least 1")?;
    let &[n, channels, height, width] = images.dims() else {
        check(false, "image_grid", "the shape", images.shape(), "[n, channels, height, width]")?;
        unreachable!("it was refused")
    };
    let rows = n.div_ceil(columns);
    let (high, wide) = (height.saturating_add(1), width.saturating_add(1));
    let size = |count: usize, one: usize| count.saturating_mul(one).saturating_add(1);
    let mut grid = Tensor::try_full([channels, size(rows, high), size(columns, wide)], 0.5f32)?;
    for i in 0..n {
        let (top, left) = (1 + i / columns * high, 1 + i % columns * wide);
        let image = images.select(0, i)?.to(DType::F32);
        grid.slice_assign(foldback_tensor::s![.., top..top + height, left..left + width], &image)?;
    }
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Kind, assert_close, refused, tensor};

    use super::super::testing::{Temporary, stands_damage};
    use super::*;
    use crate::{DataFacts, DataLoader};

    /// A grey image of one colour in a text.
    fn pgm(height: usize, width: usize, value: u8) -> Vec<u8> {
        [format!("P5\n{width} {height}\n255\n").into_bytes(), vec![value; height * width]].concat()
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, Vec<u8>)]) -> Folder {
            let root = std::env::temp_dir().join(format!("foldback-{}-{name}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            for (file, bytes) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            Folder(root)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_is_a_dataset() {
        let files = [
            ("tulip/b.pgm", pgm(2, 3, 51)),
            ("tulip/a.PGM", pgm(4, 4, 255)),
            ("rose/x.pgm", pgm(1, 1, 0)),
            ("rose/notes.txt", b"no image".to_vec()),
        ];
        let folder = Folder::new("flowers", &files);
        let set = ImageFolder::open(&folder.0).unwrap();
        assert_eq!(
            (set.classes(), set.labels()),
            (&["rose".to_owned(), "tulip".to_owned()][..], vec![0, 1, 1])
        );
        let (image, label) = set.get(2).unwrap();
        assert_eq!(label, 1);
        assert_close!(image, Tensor::full([3, 2, 3], 0.2f32));
        assert!(
            DataLoader::new(&set, 3).iter().next().unwrap().unwrap_err().to_string().starts_with("stack: ")
        );
        let loader = DataLoader::new(set.grayscale(true).resize(2, 5), 3).workers(1);
        let (images, labels) = loader.iter().next().unwrap().unwrap();
        assert_eq!((images.dims(), labels), (&[3, 1, 2, 5][..], tensor![0, 1, 1; i64]));
        assert_close!(images.mean([1, 2, 3]).unwrap(), tensor![0.0, 1.0, 0.2]);
    }

    #[test]
    fn grey_is_weighed_by_how_bright_colours_are() {
        let ppm = |pixel: [u8; 3]| [b"P6\n1 1\n255\n".to_vec(), pixel.to_vec()].concat();
        let files =
            [("a/1.ppm", ppm([255, 0, 0])), ("a/2.ppm", ppm([0, 255, 0])), ("a/3.ppm", ppm([0, 0, 255]))];
        let folder = Folder::new("colours", &files);
        let (images, _) = ImageFolder::open(&folder.0).unwrap().grayscale(true).all().unwrap();
        assert_close!(images.flatten(..).unwrap(), tensor![76.0, 150.0, 29.0] / 255.0);
    }

    #[test]
    fn folders_without_classes_or_images_are_refused() {
        let empty = Folder::new("empty", &[("note.txt", vec![])]);
        assert!(ImageFolder::open(&empty.0).unwrap_err().to_string().contains("no folders"));
        let bare = Folder::new("bare", &[("rose/note.txt", vec![])]);
        assert!(ImageFolder::open(&bare.0).unwrap_err().to_string().contains("no images"));
        assert_eq!(ImageFolder::open("no/such/folder").unwrap_err().kind(), Kind::Io);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let image = Tensor::from_vec((0..24).map(|v| v as f32 / 25.5).collect(), [3, 2, 4]).unwrap();
        let file = Temporary::new("image.png", "");
        write_image(&file.0, &image).unwrap();
        assert_close!(read_image(&file.0).unwrap(), image, atol = 0.5 / 255.0);
        write_image(&file.0, &tensor![[[-1.0, 7.0, f32::NAN]]]).unwrap();
        assert_eq!(read_image(&file.0).unwrap().select(0, 2).unwrap(), tensor![[0.0, 1.0, 0.0]]);
        assert!(refused!(write_image(&file.0, &tensor![1.0]), DataFacts::Parameter { .. }));
        assert!(write_image("image.nothing", &image).unwrap_err().to_string().contains("cannot be written"));
        let bytes = fs::read(&file.0).unwrap();
        let damaged = Temporary::new("damaged.png", "");
        stands_damage(&bytes[..bytes.len() - 12], |bytes| {
            fs::write(&damaged.0, bytes).unwrap();
            read_image(&damaged.0)
        });
    }

    #[test]
    fn grids() {
        let images = Tensor::arange_with(0..12, 1, DType::F32).reshape([3, 1, 2, 2]).unwrap();
        let h = 0.5;
        let expected = tensor![[
            [h, h, h, h, h, h, h],
            [h, 0.0, 1.0, h, 4.0, 5.0, h],
            [h, 2.0, 3.0, h, 6.0, 7.0, h],
            [h, h, h, h, h, h, h],
            [h, 8.0, 9.0, h, h, h, h],
            [h, 10.0, 11.0, h, h, h, h],
            [h, h, h, h, h, h, h],
        ]];
        assert_eq!(image_grid(&images, 2).unwrap(), expected);
        assert!(image_grid(&images, 0).is_err() && image_grid(&expected, 1).is_err());
    }
}
