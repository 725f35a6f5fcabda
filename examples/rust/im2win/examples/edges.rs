//! Edges of an image: two filters with bias and ReLU, on the CPU and, where there is one, a GPU.
//!
//! ```sh
//! cargo run --example edges IMAGE.pgm
//! ```

use std::error::Error;
use std::{env, fs};

use im2win::{cuda_device_count, Activation, Conv2d, Device, Plan};

const FILTERS: usize = 2;
const SIZE: usize = 3;

/// Changes of brightness from left to right and from top to bottom, above 100.
#[rustfmt::skip]
const FILTER: [f32; FILTERS * SIZE * SIZE] = [
    -1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0,
    -1.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0,
];
const BIAS: [f32; FILTERS] = [-100.0; FILTERS];

struct Image {
    height: usize,
    width: usize,
    pixels: Vec<f32>,
}

/// A PGM file of plain text.
fn read_image(path: &str) -> Result<Image, Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let mut words = text.split_whitespace();
    if words.next() != Some("P2") {
        return Err("not a plain PGM file".into());
    }
    let mut numbers = words.map(str::parse::<u16>);
    let mut number = || numbers.next().ok_or("the image is cut short");
    let (width, height, _maximum) = (number()??.into(), number()??.into(), number()??);
    let mut pixels = vec![0.0; height * width];
    for pixel in &mut pixels {
        *pixel = f32::from(number()??);
    }
    Ok(Image { height, width, pixels })
}

fn expected(image: &Image, k: usize, p: usize, q: usize) -> f32 {
    let mut sum = BIAS[k];
    for r in 0..SIZE {
        for s in 0..SIZE {
            // In the padded image a window begins at its output's place.
            let (y, x) = (p + r, q + s);
            if (1..=image.height).contains(&y) && (1..=image.width).contains(&x) {
                let pixel = image.pixels[(y - 1) * image.width + x - 1];
                sum += FILTER[(k * SIZE + r) * SIZE + s] * pixel;
            }
        }
    }
    sum.max(0.0)
}

/// The outputs are whole numbers: they have to be right to the last bit.
fn is_right(image: &Image, output: &[f32]) -> bool {
    let plane = image.height * image.width;
    output.iter().enumerate().all(|(i, &found)| {
        found == expected(image, i / plane, i % plane / image.width, i % image.width)
    })
}

fn find_edges(image: &Image, device: Device) -> Result<(), Box<dyn Error>> {
    let conv = Conv2d {
        padding: [1, 1],
        bias: true,
        activation: Activation::Relu,
        ..Conv2d::new([1, 1, image.height, image.width], [FILTERS, 1, SIZE, SIZE])
    };
    let plan = Plan::new(&conv, device)?;
    let mut output = vec![f32::NAN; plan.output_shape().iter().product()];
    plan.run(&image.pixels, &FILTER, Some(&BIAS), &mut output)?;
    if !is_right(image, &output) {
        return Err("wrong".into());
    }
    let name = if device == Device::Cpu { "cpu" } else { "cuda" };
    println!("{name}: {}, sum {}", plan.algorithm(), output.iter().sum::<f32>());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("usage: edges IMAGE.pgm")?;
    let image = read_image(&path)?;
    find_edges(&image, Device::Cpu)?;
    match cuda_device_count() {
        Ok(_) => find_edges(&image, Device::Cuda(0))?,
        Err(reason) => println!("no GPU: {reason}"),
    }
    Ok(())
}
