//! The UCI handwritten digits: 1797 images of 8 by 8 pixels.
//!
//! Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository
//! (1998), https://doi.org/10.24432/C50P49, CC BY 4.0; the file is the one that scikit-learn distributes.

use std::io::Read;

use flate2::read::GzDecoder;
use foldback::prelude::*;

static FILE: &[u8] = include_bytes!("digits.csv.gz");

/// Images and the digits that they show.
pub(crate) struct Digits {
    /// `[n, 64]`, `f32`, pixels between 0 and 1
    pub images: Tensor,
    /// `[n]`, `i64`
    pub labels: Tensor,
}

/// 1437 images for training and 360 for the test.
///
/// The rows, sorted by digit, are split so that every fifth is a test image; both sets keep the order of the file.
pub(crate) fn load() -> Result<(Digits, Digits)> {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text)?;
    let rows = text.lines().map(parse).collect::<Result<Vec<_>>>()?;

    let mut by_digit: Vec<usize> = (0..rows.len()).collect();
    by_digit.sort_by_key(|&row| rows[row].1);
    let mut is_test = vec![false; rows.len()];
    by_digit.iter().step_by(5).for_each(|&row| is_test[row] = true);

    let part = |test: bool| -> Result<Digits> {
        let chosen: Vec<_> = rows.iter().zip(&is_test).filter(|r| *r.1 == test).map(|r| r.0).collect();
        let pixels: Vec<f32> = chosen.iter().flat_map(|(pixels, _)| pixels.iter().copied()).collect();
        let labels: Vec<i64> = chosen.iter().map(|(_, digit)| *digit).collect();
        Ok(Digits { images: Tensor::from_vec(pixels, [chosen.len(), 64])?, labels: labels.into() })
    };
    Ok((part(false)?, part(true)?))
}

/// A line of 64 pixels from 0 to 16 and a digit.
fn parse(line: &str) -> Result<(Vec<f32>, i64)> {
    let mut numbers = line
        .split(',')
        .map(|field| field.trim().parse::<f32>().map_err(Error::other))
        .collect::<Result<Vec<f32>>>()?;
    match numbers.pop() {
        Some(digit) if numbers.len() == 64 => {
            numbers.iter_mut().for_each(|pixel| *pixel /= 16.0);
            Ok((numbers, digit as i64))
        }
        _ => Err(Error::other("expected 64 pixels and a digit in each line")),
    }
}
