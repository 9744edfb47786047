//! Pictures of pixels, for PNG: what plotters draws with lines, rectangles and letters.

use std::convert::Infallible;

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::prelude::DrawingBackend;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingErrorKind};

use super::SIZE;

type Done = Result<(), DrawingErrorKind<Infallible>>;

/// Red, green and blue of each pixel, row by row.
pub(super) struct Pixels<'a>(pub(super) &'a mut Vec<u8>);

impl Pixels<'_> {
    /// Mixes a colour into what is there.
    fn mix(&mut self, (x, y): BackendCoord, colour: BackendColor) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= SIZE.0 || y >= SIZE.1 {
            return;
        }
        let at = 3 * (y * SIZE.0 + x) as usize;
        let (r, g, b) = colour.rgb;
        for (old, new) in self.0[at..at + 3].iter_mut().zip([r, g, b]) {
            let mixed = f64::from(*old) + colour.alpha * (f64::from(new) - f64::from(*old));
            *old = mixed.round() as u8;
        }
    }
}

/// The letters that come nearest.
fn letters(size: f64) -> RasterHeight {
    if size < 18.0 { RasterHeight::Size16 } else { RasterHeight::Size20 }
}

fn extent(text: &str, letters: RasterHeight) -> (usize, usize) {
    (text.chars().count() * get_raster_width(FontWeight::Regular, letters), letters.val())
}

impl DrawingBackend for Pixels<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        SIZE
    }

    fn ensure_prepared(&mut self) -> Done {
        self.0.resize(3 * (SIZE.0 * SIZE.1) as usize, u8::MAX);
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Done {
        self.mix(point, colour);
        Ok(())
    }

    // A line of text as it stands: no chart here turns any. A letter that the font lacks is a question mark.
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Done {
        let (letters, colour, anchor) = (letters(style.size()), style.color(), style.anchor());
        let (width, height) = extent(text, letters);
        let left = x - match anchor.h_pos {
            HPos::Left => 0,
            HPos::Center => width as i32 / 2,
            HPos::Right => width as i32,
        };
        let top = y - match anchor.v_pos {
            VPos::Top => 0,
            VPos::Center => height as i32 / 2,
            VPos::Bottom => height as i32,
        };
        let step = get_raster_width(FontWeight::Regular, letters);
        for (k, letter) in text.chars().enumerate() {
            let of = |letter| get_raster(letter, FontWeight::Regular, letters);
            let Some(raster) = of(letter).or_else(|| of('?')) else { continue };
            for (row, line) in raster.rows().enumerate() {
                for (column, &ink) in line.iter().enumerate().filter(|(_, ink)| **ink > 0) {
                    let at = (left + (k * step + column) as i32, top + row as i32);
                    let alpha = colour.alpha * f64::from(ink) / f64::from(u8::MAX);
                    self.mix(at, BackendColor { alpha, ..colour });
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (width, height) = extent(text, letters(style.size()));
        Ok((width as u32, height as u32))
    }
}
