// SPDX-License-Identifier: Apache-2.0
//! [`Cloud`]: whose protocol a storage is asked in, which settings there are for it, and where its keys come from.

use std::ffi::OsString;
use std::path::PathBuf;

/// A protocol of an object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    /// Amazon's S3, and what speaks it.
    S3,
    /// Google's Cloud Storage.
    Google,
    /// Azure's Blob Storage.
    Azure,
}

/// How the names of settings begin, as the clouds' own tools know them. The client would take the rest alone, too, and `TOKEN` or
/// `ENDPOINT` may be anybody's.
const SETTINGS: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// Where Azure's App Service gives keys: the one name of the clouds' own tools that begins otherwise.
const IDENTITY_ENDPOINT: &str = "IDENTITY_ENDPOINT";

/// Whether a variable of the environment is a setting of a cloud.
pub(crate) fn is_setting(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name == IDENTITY_ENDPOINT || SETTINGS.iter().any(|beginning| name.starts_with(*beginning))
}

impl Cloud {
    /// That of a place; `None` of a directory, and of an address that nobody knows.
    pub(crate) fn of(place: &str) -> Option<Self> {
        let (scheme, rest) = place.split_once("://")?;
        let host = rest.split('/').next().unwrap_or_default();
        let is_of = |domains: [&str; 2]| domains.iter().any(|domain| host.ends_with(*domain));
        match scheme {
            "s3" | "s3a" => Some(Self::S3),
            "gs" => Some(Self::Google),
            "az" | "adl" | "azure" | "abfs" | "abfss" => Some(Self::Azure),
            "https" if is_of([".amazonaws.com", ".r2.cloudflarestorage.com"]) => Some(Self::S3),
            "https" if is_of([".core.windows.net", ".fabric.microsoft.com"]) => Some(Self::Azure),
            _ => None,
        }
    }

    /// Whether it is asked for the names behind another one. To Azure's protocol that came with version 2026-02-06. The client asks for it
    /// in an older one, whatever that does, and OneLake gives no names then (<https://github.com/apache/arrow-rs-object-store/issues/695>).
    /// So there all are asked for.
    pub(crate) fn begins_lists(self) -> bool {
        self != Self::Azure
    }

    /// The variables of the environment that its keys are in.
    pub(crate) fn keys(self) -> &'static str {
        match self {
            Self::S3 => {
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and at AWS_SESSION_TOKEN if there is one"
            }
            Self::Google => "the file that GOOGLE_SERVICE_ACCOUNT names",
            Self::Azure => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }

    /// Whether a setting has keys, or says where they are. Without one they are asked of the machine that this runs on; outside of the
    /// cloud nobody answers that.
    pub(crate) fn is_source_of_keys(self, setting: &str) -> bool {
        let setting = setting.to_ascii_lowercase();
        let rest = |beginning: &str| setting.strip_prefix(beginning);
        match self {
            Self::S3 => rest("aws_").is_some_and(|name| {
                let sources = ["access_key_id", "web_identity_token_file", "skip_signature"];
                sources.contains(&name) || name.starts_with("container_credentials_")
            }),
            Self::Google => rest("google_")
                .is_some_and(|name| name.starts_with("service_account") || name == "application_credentials"),
            Self::Azure => rest("azure_").is_some_and(|name| {
                let sources = [
                    "account_key",
                    "access_key",
                    "master_key",
                    "sas_key",
                    "sas_token",
                    "token",
                    "client_secret",
                    "federated_token_file",
                    "use_azure_cli",
                    "use_emulator",
                    "skip_signature",
                    "fabric_token_service_url",
                ];
                sources.contains(&name.strip_prefix("storage_").unwrap_or(name))
            }),
        }
    }

    /// Whether there are keys where its own tools leave them.
    pub(crate) fn has_keys_at_home(self) -> bool {
        const FILE: &str = ".config/gcloud/application_default_credentials.json";
        let is_there = |home: OsString| PathBuf::from(home).join(FILE).exists();
        self == Self::Google && std::env::var_os("HOME").is_some_and(is_there)
    }

    /// What to do where nobody has answered who was asked for keys.
    pub(crate) fn lack_of_keys(self) -> &'static str {
        match self {
            Self::S3 => {
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set, and this machine has no role that gives keys"
            }
            Self::Google => {
                "GOOGLE_SERVICE_ACCOUNT is not set, and this machine has no service account that gives keys"
            }
            Self::Azure => {
                "AZURE_STORAGE_ACCOUNT_KEY is not set, and this machine has no identity that gives keys"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_a_cloud_by_its_address() {
        for (place, cloud) in [
            ("s3://bucket/a", Some(Cloud::S3)),
            ("https://bucket.s3.eu-central-1.amazonaws.com/a", Some(Cloud::S3)),
            ("gs://bucket/a", Some(Cloud::Google)),
            ("az://container/a", Some(Cloud::Azure)),
            ("abfss://container@account.dfs.core.windows.net/a", Some(Cloud::Azure)),
            ("https://account.blob.core.windows.net/container/a", Some(Cloud::Azure)),
            ("https://example.com/a", None),
            ("file:///a", None),
            ("/a", None),
        ] {
            assert_eq!(Cloud::of(place), cloud, "{place}");
        }
    }

    #[test]
    fn keys_are_asked_of_the_machine_if_no_setting_has_them() {
        for (cloud, settings) in [
            (Cloud::S3, ["AWS_ACCESS_KEY_ID", "aws_access_key_id", "AWS_CONTAINER_CREDENTIALS_FULL_URI"]),
            (
                Cloud::Google,
                ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"],
            ),
            (Cloud::Azure, ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_CLIENT_SECRET", "AZURE_STORAGE_SAS_KEY"]),
        ] {
            for setting in settings {
                assert!(cloud.is_source_of_keys(setting), "{setting}");
            }
            for setting in ["HOME", "AWS_SECRET_ACCESS_KEY", "GOOGLE_BASE_URL", "AZURE_CLIENT_ID"] {
                assert!(!cloud.is_source_of_keys(setting), "{setting} of {cloud:?}");
            }
        }
    }

    /// `TOKEN`, of whatever program, was taken for a part of the key.
    #[test]
    fn variables_of_others_are_no_settings() {
        for name in ["AWS_REGION", "aws_region", "GOOGLE_BASE_URL", "AZURE_ALLOW_HTTP", "IDENTITY_ENDPOINT"] {
            assert!(is_setting(name), "{name}");
        }
        for name in ["TOKEN", "ENDPOINT", "REGION", "TIMEOUT", "HOME", "MY_AWS_REGION"] {
            assert!(!is_setting(name), "{name}");
        }
    }
}
