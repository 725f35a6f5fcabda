use std::thread;

use im2win::{Activation, Conv2d, Device, Error, Plan};

fn message(result: Result<(), Error>) -> String {
    result.expect_err("this is an error").to_string()
}

#[test]
fn lengths_are_checked() {
    let conv = Conv2d { bias: true, ..Conv2d::new([1, 2, 4, 5], [3, 2, 3, 3]) };
    let plan = Plan::<f32>::new(&conv, Device::Cpu).unwrap();
    let (input, filter, bias) = ([0.0; 40], [0.0; 54], [0.0; 3]);
    let mut output = [0.0; 18];
    let mut run = |input: &[f32], bias| message(plan.run(input, &filter, bias, &mut output));
    assert_eq!(run(&input[1..], Some(&bias[..])), "input has 39 elements: expected 40");
    assert_eq!(run(&input, None), "bias has 0 elements: expected 3");
    assert_eq!(run(&input, Some(&bias[1..])), "bias has 2 elements: expected 3");
}

#[test]
fn errors_say_what_is_wrong() {
    let conv = Conv2d { stride: [1, 0], ..Conv2d::new([1, 2, 4, 5], [3, 2, 3, 3]) };
    let error = Plan::<f32>::new(&conv, Device::Cpu).err().unwrap();
    assert_eq!(error.status, im2win_sys::IM2WIN_INVALID_ARGUMENT);
    assert!(error.to_string().contains("stride_w is 0"), "{error}");
    let conv = Conv2d::new([1, 2, 4, 5], [3, 1, 3, 3]);
    let error = Plan::<f32>::new(&conv, Device::Cpu).err().unwrap();
    assert!(error.to_string().contains("expected 2 channels"), "{error}");
}

#[test]
fn every_field_counts() {
    let conv = Conv2d {
        stride: [2, 1],
        padding: [1, 2],
        dilation: [1, 3],
        groups: 2,
        activation: Activation::Clamp(0.0, 5.0),
        ..Conv2d::new([2, 4, 6, 8], [6, 2, 3, 2])
    };
    let plan = Plan::<f64>::new(&conv, Device::Cpu).unwrap();
    assert_eq!(plan.output_shape(), [2, 6, 3, 9]);
    let mut output = [f64::NAN; 2 * 6 * 3 * 9];
    plan.run(&[1.0; 384], &[0.25; 72], None, &mut output).unwrap();
    assert_eq!(output[0], 1.0); // a padded corner: two channels, two rows, one column
    assert_eq!(output[9 + 4], 3.0); // nothing of the window is padding
}

#[test]
fn threads_share_a_plan() {
    let plan = Plan::<f32>::new(&Conv2d::new([1, 8, 9, 9], [8, 8, 3, 3]), Device::Cpu).unwrap();
    thread::scope(|scope| {
        for value in [1.0, 2.0, 3.0] {
            let plan = &plan;
            scope.spawn(move || {
                let mut output = [f32::NAN; 8 * 49];
                plan.run(&[value; 648], &[1.0; 576], None, &mut output).unwrap();
                assert!(output.iter().all(|&found| found == 72.0 * value));
            });
        }
    });
}
