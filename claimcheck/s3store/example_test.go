package s3store_test

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/watermill-envelope/envelope/claimcheck"
	"github.com/watermill-envelope/envelope/claimcheck/s3store"
)

// A server of one's own, by path and with fixed keys, and objects encrypted with a KMS key.
// For Amazon S3 make the client of config.LoadDefaultConfig's result, with s3.NewFromConfig,
// and leave BaseEndpoint and UsePathStyle out.
func ExampleNew() {
	client := s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("https://s3.example.com:9000"),
		UsePathStyle: true, // https://s3.example.com:9000/bucket/key
		Credentials: aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("S3_ACCESS_KEY"), SecretAccessKey: os.Getenv("S3_SECRET_KEY")}, nil
		})),
	})
	store, err := s3store.New(s3store.Config{
		Client: client,
		Bucket: "acme-claims",
		PutInput: func(in *s3.PutObjectInput) {
			in.ServerSideEncryption = types.ServerSideEncryptionAwsKms
			in.SSEKMSKeyId = aws.String("alias/claims")
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	checker, err := claimcheck.New(claimcheck.Config{Store: store})
	fmt.Println(checker != nil, err)
	// Output: true <nil>
}
