//! Reads images (28x28 f32 each) from standard input and prints ten scores for each, using the compiled LeNet. Nothing but rustc is needed:
//!
//!     polyreme compile examples/lenet.py:LeNet -o lenet.a
//!     rustc --edition 2021 -O -L native=. -l static:+verbatim=lenet.a -l m examples/lenet.rs -o lenet
//!     ./lenet < images.f32

use std::ffi::{c_char, c_void, CStr};
use std::io::Read;
use std::ptr;

/// What `lenet.h` declares, as far as it is used here.
mod sys {
    use super::{c_char, c_void};

    #[repr(C)]
    pub struct Model {
        _private: [u8; 0],
    }

    extern "C" {
        pub fn lenet_create(threads: i32, error: *mut *const c_char) -> *mut Model;
        pub fn lenet_destroy(model: *mut Model);
        pub fn lenet_run_sized(
            model: *mut Model,
            inputs: *const *const c_void,
            input_shapes: *const *const i64,
            outputs: *const *mut c_void,
            capacities: *const i64,
            output_shapes: *const *mut i64,
        ) -> i32;
        pub fn lenet_error() -> *const c_char;
    }
}

/// The compiled LeNet. It ends where it goes out of scope.
struct LeNet(*mut sys::Model);

// Several threads may run one model at the same time.
unsafe impl Send for LeNet {}
unsafe impl Sync for LeNet {}

fn text(message: *const c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

impl LeNet {
    const PIXELS: usize = 28 * 28;
    const CLASSES: usize = 10;

    /// On so many threads, 0 for one per processor.
    fn new(threads: i32) -> Result<LeNet, String> {
        let mut error = ptr::null();
        let model = unsafe { sys::lenet_create(threads, &mut error) };
        if model.is_null() {
            Err(text(error))
        } else {
            Ok(LeNet(model))
        }
    }

    /// The scores of images, which stand one after another.
    fn run(&self, images: &[f32]) -> Result<Vec<[f32; Self::CLASSES]>, String> {
        let count = images.len() / Self::PIXELS;
        if count * Self::PIXELS != images.len() {
            return Err(format!("expected images of {} pixels but got {} numbers", Self::PIXELS, images.len()));
        }
        let shape = [count as i64, 1, 28, 28];
        let mut scores = vec![[0.0; Self::CLASSES]; count];
        let mut found = [0_i64; 2];
        let code = unsafe {
            sys::lenet_run_sized(
                self.0,
                [images.as_ptr().cast()].as_ptr(),
                [shape.as_ptr()].as_ptr(),
                [scores.as_mut_ptr().cast()].as_ptr(),
                [(count * Self::CLASSES) as i64].as_ptr(),
                [found.as_mut_ptr()].as_ptr(),
            )
        };
        if code != 0 {
            return Err(text(unsafe { sys::lenet_error() }));
        }
        assert_eq!(found, [count as i64, Self::CLASSES as i64]);
        Ok(scores)
    }
}

impl Drop for LeNet {
    fn drop(&mut self) {
        unsafe { sys::lenet_destroy(self.0) }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let images: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    for scores in LeNet::new(0)?.run(&images)? {
        println!("{}", scores.map(|score| format!("{score:.8e}")).join(" "));
    }
    Ok(())
}
