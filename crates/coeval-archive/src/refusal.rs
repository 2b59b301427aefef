// SPDX-License-Identifier: Apache-2.0
//! [`Refusal`]: why a storage does not do what it is asked, however often, and what to look at.
//!
//! The clients of the clouds have the status of an answer, and the code in it, in the text of their errors alone. So both are read
//! from there. What is not understood is no refusal: it is asked again.
//!
//! | the answer | what is likely |
//! |---|---|
//! | a [known code](CODES) | as the table says |
//! | a [code of what passes](PASSING) | nothing, whatever the status is: later it may be done |
//! | 401 | the key |
//! | 403 | a right is missing |
//! | 404, of a list; a redirection | the bucket |
//! | 408, 409, 425, 429 | nothing: later it may be done |
//! | another 4xx | the request: the storage lacks something |

use crate::cloud::Cloud;
use object_store::Error;

/// What is likely to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Key,
    Bucket,
    Permission,
    Clock,
    Request,
}

/// What S3, Google Cloud Storage, which has the same codes, Azure, and servers of the S3 protocol say.
const CODES: [(&str, Cause); 23] = [
    ("InvalidAccessKeyId", Cause::Key),
    ("SignatureDoesNotMatch", Cause::Key),
    ("InvalidToken", Cause::Key),
    ("ExpiredToken", Cause::Key),
    ("TokenRefreshRequired", Cause::Key),
    ("InvalidSecurity", Cause::Key),
    ("AuthenticationFailed", Cause::Key),
    ("InvalidAuthenticationInfo", Cause::Key),
    ("NoAuthenticationInformation", Cause::Key),
    // Versity's gateway, with the status of an object that is not there.
    ("XAdminUserNotFound", Cause::Key),
    ("NoSuchBucket", Cause::Bucket),
    ("InvalidBucketName", Cause::Bucket),
    ("PermanentRedirect", Cause::Bucket),
    // It names the right region.
    ("AuthorizationHeaderMalformed", Cause::Bucket),
    ("ContainerNotFound", Cause::Bucket),
    ("AccessDenied", Cause::Permission),
    ("AllAccessDisabled", Cause::Permission),
    ("AccountProblem", Cause::Permission),
    ("AuthorizationFailure", Cause::Permission),
    ("AuthorizationPermissionMismatch", Cause::Permission),
    ("InsufficientAccountPermissions", Cause::Permission),
    ("RequestTimeTooSkewed", Cause::Clock),
    ("NotImplemented", Cause::Request),
];

/// What S3, its relatives and Azure say of what may be done later, or when it is sent again; of some the status is 400.
const PASSING: [&str; 21] = [
    "RequestTimeout",
    "RequestTimeoutException",
    "IncompleteBody",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "ClientDisconnected",
    "OperationAborted",
    "ConditionalRequestConflict",
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "TooManyRequests",
    "InternalError",
    "ServiceUnavailable",
    "ServerBusy",
    "OperationTimedOut",
    "Md5Mismatch",
];

/// See the module.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    /// What the storage has said, as far as people read it.
    said: String,
}

impl Refusal {
    /// Why a storage refuses, if asking again would be answered in the same way.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let text = error.to_string();
        let code = code_of(&text);
        if passes(error) {
            return None;
        }
        let known = code.and_then(|code| CODES.iter().find(|(name, _)| *name == code));
        let cause = known.map(|(_, cause)| *cause).or_else(|| by_kind(error, &text))?;
        // Azure's goes on with the number of the request, and the time.
        let message = between(&text, "<Message>", "</Message>").and_then(|text| text.trim().lines().next());
        let said = match (code, message) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            (None, _) => text.clone(),
        };
        Some(Self { cause, said })
    }

    /// What to look at, for an archive of this place.
    pub(crate) fn reason(&self, place: &str) -> String {
        let advice = match self.cause {
            Cause::Key => {
                let keys = Cloud::of(place).map_or("its keys", Cloud::keys);
                format!("the key is wrong, or not valid any more: look at {keys}")
            }
            Cause::Bucket => {
                "there is no such bucket or container, or it is in another region: look at the address and at the region \
                 (AWS_REGION), or make it first"
                    .to_owned()
            }
            Cause::Permission if !place.contains("://") => "look at the rights of the directory".to_owned(),
            Cause::Permission => {
                "the key is known and has no right to do that: it has to list, read and create objects in this bucket, and to \
                 collect, to remove them; or the bucket is somebody else's"
                    .to_owned()
            }
            Cause::Clock => "the clock of this machine is wrong".to_owned(),
            Cause::Request => "look at its rights and settings".to_owned(),
        };
        format!("{advice} ({})", self.said)
    }
}

/// Whether the storage says that it may be done later, with whatever status.
pub(crate) fn passes(error: &Error) -> bool {
    code_of(&error.to_string()).is_some_and(|code| PASSING.contains(&code))
}

/// Whether this was said by who was asked for keys, and not by the storage.
pub(crate) fn is_of_keys(error: &Error) -> bool {
    let text = error.to_string();
    SIGNS_OF_KEYS.iter().any(|sign| text.contains(*sign))
}

/// What stands in the errors of requests for keys: words of the clients of Google and Azure, and the paths of Amazon's machines.
const SIGNS_OF_KEYS: [&str; 3] = [TOKEN_REQUEST, "/latest/api/token", "/latest/meta-data/iam/"];

/// See [`SIGNS_OF_KEYS`].
const TOKEN_REQUEST: &str = "token request";

/// The code in what a storage has said.
fn code_of(text: &str) -> Option<&str> {
    // Of a removal of several objects it stands behind the message.
    between(text, "<Code>", "</Code>").or_else(|| between(text, "(code: ", ")"))
}

/// What is likely if the storage gives no code that is known.
fn by_kind(error: &Error, text: &str) -> Option<Cause> {
    match error {
        // The object, mostly: who asks knows what that means.
        Error::NotFound { .. }
        | Error::AlreadyExists { .. }
        | Error::Precondition { .. }
        | Error::NotModified { .. } => None,
        Error::PermissionDenied { .. } => Some(Cause::Permission),
        Error::Unauthenticated { .. } => Some(Cause::Key),
        Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => Some(Cause::Request),
        _ => by_status(text),
    }
}

fn by_status(text: &str) -> Option<Cause> {
    if text.contains("redirect without LOCATION") {
        return Some(Cause::Bucket);
    }
    // Of a removal that Azure does not allow it gives the status alone, in the place of a code.
    if text.contains("(code: 403)") {
        return Some(Cause::Permission);
    }
    let (_, status) = text.split_once("status code: ")?;
    match status.get(..3)?.parse::<u16>().ok()? {
        301 | 302 | 307 | 308 | 404 => Some(Cause::Bucket),
        401 => Some(Cause::Key),
        400 | 403 if text.contains(TOKEN_REQUEST) => Some(Cause::Key),
        403 => Some(Cause::Permission),
        408 | 409 | 425 | 429 => None,
        400..=499 => Some(Cause::Request),
        _ => None,
    }
}

/// The first text between two marks.
fn between<'t>(text: &'t str, before: &str, behind: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(behind).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    fn answer(status: &str, code: &str) -> Error {
        let body = if code.is_empty() {
            String::new()
        } else {
            format!("<Error><Code>{code}</Code><Message>Words.</Message><Secret>x</Secret></Error>")
        };
        generic(&format!("GET http://s3/b in 1ms - Server returned non-2xx status code: {status}: {body}"))
    }

    #[test]
    fn what_is_wrong_is_told_from_what_may_work_later() {
        for (status, code, cause) in [
            ("403 Forbidden", "InvalidAccessKeyId", Some(Cause::Key)),
            ("403 Forbidden", "SignatureDoesNotMatch", Some(Cause::Key)),
            ("403 Forbidden", "AccessDenied", Some(Cause::Permission)),
            ("403 Forbidden", "", Some(Cause::Permission)),
            ("403 Forbidden", "RequestTimeTooSkewed", Some(Cause::Clock)),
            ("404 Not Found", "NoSuchBucket", Some(Cause::Bucket)),
            ("404 Not Found", "", Some(Cause::Bucket)),
            ("400 Bad Request", "AuthorizationHeaderMalformed", Some(Cause::Bucket)),
            ("400 Bad Request", "Unheard", Some(Cause::Request)),
            ("401 Unauthorized", "", Some(Cause::Key)),
            ("301 Moved Permanently", "", Some(Cause::Bucket)),
            ("429 Too Many Requests", "", None),
            ("503 Service Unavailable", "SlowDown", None),
            ("400 Bad Request", "RequestTimeout", None),
            ("400 Bad Request", "IncompleteBody", None),
            ("400 Bad Request", "BadDigest", None),
            ("403 Forbidden", "ThrottlingException", None),
            ("409 Conflict", "OperationAborted", None),
            ("500 Internal Server Error", "InternalError", None),
        ] {
            let found = Refusal::of(&answer(status, code)).map(|refusal| refusal.cause);
            assert_eq!(found, cause, "{status} {code}");
        }
        assert!(Refusal::of(&generic("connection refused")).is_none());
        let token = "Error performing token request: Server returned status code: 400 Bad Request: {}";
        assert_eq!(Refusal::of(&generic(token)).unwrap().cause, Cause::Key);
        assert!(is_of_keys(&generic(token)) && !is_of_keys(&answer("403 Forbidden", "AccessDenied")));
        let removal = "DeleteObjects request failed for key a: Access Denied (code: AccessDenied)";
        assert_eq!(Refusal::of(&generic(removal)).unwrap().cause, Cause::Permission);
        let removal = "Bulk delete request failed for key a: Forbidden (code: 403)";
        assert_eq!(Refusal::of(&generic(removal)).unwrap().cause, Cause::Permission);
        let later = "DeleteObjects request failed for key a: Try again. (code: InternalError)";
        assert!(Refusal::of(&generic(later)).is_none());
        let conflict = |code: &str| {
            let source = format!("<Error><Code>{code}</Code></Error>").into();
            Error::AlreadyExists { path: "a".to_owned(), source }
        };
        assert!(passes(&conflict("ConditionalRequestConflict")) && passes(&conflict("OperationAborted")));
        assert!(!passes(&conflict("BlobAlreadyExists")));
        let missing = |text: &str| Error::NotFound { path: "a".to_owned(), source: text.to_owned().into() };
        assert!(Refusal::of(&missing("<Code>NoSuchKey</Code>")).is_none());
        assert_eq!(Refusal::of(&missing("<Code>NoSuchBucket</Code>")).unwrap().cause, Cause::Bucket);
        assert_eq!(Refusal::of(&missing("<Code>XAdminUserNotFound</Code>")).unwrap().cause, Cause::Key);
    }

    #[test]
    fn it_is_said_what_to_look_at_and_not_all_that_the_storage_says() {
        let said =
            |place: &str, code: &str| Refusal::of(&answer("403 Forbidden", code)).unwrap().reason(place);
        let of_key = said("s3://bucket/a", "SignatureDoesNotMatch");
        assert!(of_key.contains("AWS_SECRET_ACCESS_KEY"), "{of_key}");
        assert!(of_key.ends_with("(SignatureDoesNotMatch: Words.)"), "{of_key}");
        assert!(said("gs://bucket/a", "ExpiredToken").contains("GOOGLE_SERVICE_ACCOUNT"));
        assert!(said("az://bucket/a", "AuthenticationFailed").contains("AZURE_STORAGE_ACCOUNT_KEY"));
        assert!(said("s3://bucket/a", "AccessDenied").contains("no right"));
        let body = "<Code>ContainerNotFound</Code><Message>Words.\nRequestId:1\nTime:2</Message>";
        let error = generic(&format!("Server returned non-2xx status code: 404 Not Found: {body}"));
        let of_azure = Refusal::of(&error).unwrap().reason("az://bucket/a");
        assert!(of_azure.ends_with("(ContainerNotFound: Words.)"), "{of_azure}");
    }
}
