//! Finds the library by pkg-config; PKG_CONFIG_PATH says where one is that is not the system's.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = Command::new("pkg-config")
        .args(["--libs-only-L", "--libs-only-l", "im2win >= 0.1"])
        .output()
        .expect("cannot run pkg-config");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        match flag.split_at(2) {
            ("-L", folder) => println!("cargo:rustc-link-search=native={folder}"),
            ("-l", name) => println!("cargo:rustc-link-lib=dylib={name}"),
            _ => panic!("pkg-config says {flag}: expected -L or -l"),
        }
    }
}
